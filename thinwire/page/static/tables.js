// Tables that can be sorted by each column: by the buttons in their headings.
"use strict";

// Fill a table. `columns` are {title, key, text, number, words}: `key` gives the value to sort by, and `text`
// what is shown (default: the value). Columns of numbers are set right, those of words are wide.
function fillTable(table, columns, rows) {
  const heading = element("tr");
  columns.forEach((column) => {
    heading.append(element("th", { scope: "col", class: column.number ? "number" : "" }, column.title));
  });
  const body = element("tbody");
  for (const row of rows) {
    const line = element("tr");
    columns.forEach((column, i) => {
      const value = column.key(row);
      const cell = element(i ? "td" : "th", i ? {} : { scope: "row" });
      if (column.number) cell.className = "number";
      if (column.words) cell.className = "words";
      if (value !== null && value !== undefined) cell.dataset.value = value;
      cell.append(column.text ? column.text(row) : value ?? "");
      line.append(cell);
    });
    body.append(line);
  }
  const was = sortedBy(table);
  table.querySelectorAll("thead, tbody").forEach((part) => part.remove());
  table.append(element("thead", {}, heading), body);
  makeSortable(table);
  if (was) sortBy(table, was.place, was.direction);
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((cell, place) => {
    const button = element("button", { type: "button" });
    button.append(...cell.childNodes);
    cell.append(button);
    button.addEventListener("click", () => {
      const up = cell.getAttribute("aria-sort") === "ascending";
      sortBy(table, place, up ? "descending" : "ascending");
    });
  });
}

function sortedBy(table) {
  const cells = [...(table.tHead?.rows[0]?.cells ?? [])];
  const place = cells.findIndex((cell) => cell.hasAttribute("aria-sort"));
  return place < 0 ? null : { place, direction: cells[place].getAttribute("aria-sort") };
}

// Rows without a value come last in both directions.
function sortBy(table, place, direction) {
  [...table.tHead.rows[0].cells].forEach((cell, i) => {
    if (i === place) cell.setAttribute("aria-sort", direction);
    else cell.removeAttribute("aria-sort");
  });
  const sign = direction === "ascending" ? 1 : -1;
  const valueOf = (row) => row.cells[place]?.dataset.value;
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [x, y] = [valueOf(a), valueOf(b)];
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
    const [m, n] = [Number(x), Number(y)];
    const both = !Number.isNaN(m) && !Number.isNaN(n);
    return sign * (both ? (m === n ? 0 : m < n ? -1 : 1) : x.localeCompare(y, "en"));
  });
  table.tBodies[0].append(...rows);
}
