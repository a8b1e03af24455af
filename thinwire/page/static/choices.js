// The choices at the top of the page: suite, data set, model, workers, and the place whose times are shown.
"use strict";

const SHOWN = [];

// `show` is called whenever another cell is chosen.
function whenChosen(show) {
  SHOWN.push(show);
}

function select(name) {
  return document.getElementById(`choose-${name}`);
}

// Fill a list of choices with [value, text] pairs. What was chosen stays, if it is still there; otherwise
// `first` is chosen.
function offer(list, pairs, first = pairs[0]?.[0]) {
  const before = list.value;
  list.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  list.value = pairs.some(([value]) => value === before) ? before : first;
  list.disabled = pairs.length < 2;
}

function unique(values) {
  return [...new Set(values)];
}

// Does a cell have accuracies and times? Every row with an accuracy has its traffic, too.
function isComplete(cell, suite = chosen.suite) {
  const learned = (row) => inCell(row, CELL, cell) && row.accuracy_percent !== null;
  const timed = (row) => inCell(row, SIMULATED_CELL, cell);
  return rowsOf("leaders", suite).some(learned) && rowsOf("places", suite).some(timed);
}

// The cell that is shown first: of those that are complete, or else of all, that with the most workers.
function firstShown(cells) {
  const complete = cells.filter((cell) => isComplete(cell));
  return (complete.length ? complete : cells).reduce((a, b) => (b.workers > a.workers ? b : a));
}

function sizeKey(cell) {
  return `${cell.workers} ${cell.nodes}`;
}

function choose() {
  chosen.suite = DATA.suites[Number(select("suite").value)];
  let cells = chosen.suite.cells;
  for (const key of ["dataset", "model"]) {
    const names = unique(cells.map((cell) => cell[key]));
    offer(select(key), names.map((name) => [name, name]), firstShown(cells)[key]);
    cells = cells.filter((cell) => cell[key] === select(key).value);
  }
  offer(select("workers"), cells.map((cell) => [sizeKey(cell), sizeOf(cell)]), sizeKey(firstShown(cells)));
  chosen.cell = cells.find((cell) => sizeKey(cell) === select("workers").value);
  const places = rowsOf("places").filter((row) => inCell(row, SIMULATED_CELL));
  const sameNodes = places.find((row) => inCell(row)) ?? places[0];
  const names = unique(places.map(placeName)).map((name) => [name, name]);
  offer(select("place"), names.length ? names : [["", "none"]], sameNodes && placeName(sameNodes));
  chosen.place = select("place").value;
  document.querySelectorAll(".cell-name").forEach((place) => (place.textContent = cellName()));
  document.getElementById("suite-title").textContent = chosen.suite.title;
  document.getElementById("baseline").textContent = chosen.suite.baselines[0];
  document.querySelectorAll("[data-absent]").forEach((place) => {
    const absent = chosen.suite.absent[place.dataset.absent];
    place.replaceChildren(...(absent ? [prose(absent)] : []));
  });
  SHOWN.forEach((show) => show());
}

function startChoices() {
  const complete = DATA.suites.findIndex((suite) => suite.cells.some((cell) => isComplete(cell, suite)));
  const names = DATA.suites.map((suite, i) => [String(i), suite.name]);
  offer(select("suite"), names, String(Math.max(0, complete)));
  document.getElementById("choices").addEventListener("change", choose);
  DARK.addEventListener("change", choose);
  choose();
}
