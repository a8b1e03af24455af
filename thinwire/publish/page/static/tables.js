// Elements, numbers as they are shown, and tables that are sorted by the buttons in their headings.
"use strict";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat());
  return made;
}

// A sentence, whose names in backticks are shown as code.
function prose(text) {
  return text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? element("code", {}, part) : part));
}

// What is shown in a cell of a table, with a remark on a line of its own.
function withRemark(shown, remark) {
  return remark ? [shown, element("small", { class: "below" }, ` ${remark}`)].flat() : shown;
}

// How a method is drawn in charts.
function symbol(colour, shape) {
  const made = element("span", { class: "symbol", style: `--method: ${colour}` });
  made.innerHTML = `<svg viewBox="-1.5 -1.5 3 3" aria-hidden="true"><path d="${shape}"/></svg>`;
  return made;
}

// A number with so many digits after the point; a missing one is empty, and zero has no sign.
function fixed(value, digits) {
  const text = value?.toFixed(digits) ?? "";
  return text.replace("-", Number(text) ? "−" : "");
}

function megabytes(bytes) {
  return bytes === null ? "" : fixed(bytes / 1e6, 3);
}

// `columns` are [title, key, text]: rows are sorted by the value of `key`, and `text` is shown instead of it.
// Both are names of values or functions of a row. A column without any value is left out. With `bar`, a line shows how
// large a value is beside the largest; with `dot`, a point shows where it lies between the least and the largest.
function fillTable(place, columns, rows) {
  const table = typeof place === "string" ? document.querySelector(place) : place;
  const valueOf = (row, key) => (typeof key === "string" ? row[key] : key(row)) ?? null;
  const shown = columns.map(([title, key, text, mark], place) => {
    const values = rows.map((row) => valueOf(row, key));
    const isWide = (value) => place && value?.length > 20;
    const isNumber = (value) => typeof value === "number";
    const kind = values.some(isNumber) ? "number" : values.some(isWide) ? "words" : "";
    const finite = values.filter(Number.isFinite), most = Math.max(...finite);
    const least = mark === "dot" ? Math.min(...finite) : 0;
    const shareOf = (value) => (mark && Number.isFinite(value) && most > least ? (value - least) / (most - least) : null);
    return { title, values, kind, mark, shareOf, textOf: (row) => valueOf(row, text ?? key) ?? "" };
  }).filter(({ values }) => values.some((value) => value !== null));
  const heads = shown.map(({ title, kind }) => {
    return element("th", { scope: "col", class: kind }, element("button", { type: "button" }, title));
  });
  const lines = rows.map((row, i) => {
    const line = element("tr");
    shown.forEach(({ values, kind, mark, shareOf, textOf }, place) => {
      const cell = element(place ? "td" : "th", place ? { class: kind } : { scope: "row" }, textOf(row));
      if (values[i] !== null) cell.dataset.value = values[i];
      const share = shareOf(values[i]);
      if (share !== null) cell.append(element("i", { class: mark, style: `--share: ${fixed(100 * share, 0)}%` }));
      line.append(cell);
    });
    return line;
  });
  table.replaceChildren(element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...lines));
  if (table.dataset.by) sortTable(table, table.dataset.by, table.dataset.direction);
}

// Mark the tables that are wider than their place.
const widths = new ResizeObserver((entries) => entries.forEach(({ target }) => {
  const place = target.closest(".wide");
  place?.classList.toggle("more", place.scrollWidth > place.clientWidth + 1);
}));
document.querySelectorAll(".wide, .wide > table").forEach((each) => widths.observe(each));

document.addEventListener("click", ({ target }) => {
  const head = target.closest("thead th > button")?.parentElement;
  if (!head) return;
  const direction = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  sortTable(head.closest("table"), head.textContent, direction);
});

// Rows without a value come last in both directions. Another choice of rows keeps the order.
function sortTable(table, title, direction) {
  Object.assign(table.dataset, { by: title, direction });
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  const place = heads.findIndex((head) => head.textContent === title);
  if (place < 0) return;
  heads[place].setAttribute("aria-sort", direction);
  const compare = (x, y) => (direction === "ascending" ? 1 : -1) * (x - y || x.localeCompare(y, "en"));
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const [x, y] = [a, b].map((row) => row.cells[place].dataset.value);
    return x === undefined || y === undefined ? (x === undefined) - (y === undefined) : compare(x, y);
  });
  table.tBodies[0].append(...rows);
}
