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

// Fill a list of choices with [value, text] pairs; keeps what was chosen if it is still there.
function offer(list, pairs) {
  const before = list.value;
  list.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  if (pairs.some(([value]) => value === before)) list.value = before;
  list.disabled = pairs.length < 2;
}

function unique(values) {
  return [...new Set(values)];
}

function choose() {
  chosen.suite = DATA.suites[Number(select("suite").value)];
  const cells = chosen.suite.cells;
  offer(select("dataset"), unique(cells.map((cell) => cell.dataset)).map((name) => [name, name]));
  const ofDataset = cells.filter((cell) => cell.dataset === select("dataset").value);
  offer(select("model"), unique(ofDataset.map((cell) => cell.model)).map((name) => [name, name]));
  const ofModel = ofDataset.filter((cell) => cell.model === select("model").value);
  offer(select("workers"), ofModel.map((cell) => [`${cell.workers} ${cell.nodes}`, sizeOf(cell)]));
  const [workers, nodes] = select("workers").value.split(" ").map(Number);
  chosen.cell = ofModel.find((cell) => cell.workers === workers && cell.nodes === nodes);
  const places = rowsOf("places").filter((row) => inCell(row, SIMULATED_CELL)).map(placeName);
  offer(select("place"), places.length ? unique(places).map((name) => [name, name]) : [["", "none"]]);
  chosen.place = select("place").value;
  document.querySelectorAll(".cell-name").forEach((place) => (place.textContent = cellName()));
  document.getElementById("suite-title").textContent = chosen.suite.title;
  document.getElementById("baseline").textContent = chosen.suite.baselines[0];
  document.querySelectorAll("[data-absent]").forEach((place) => {
    place.textContent = chosen.suite.absent[place.dataset.absent] ?? "";
  });
  SHOWN.forEach((show) => show());
}

function startChoices() {
  offer(select("suite"), DATA.suites.map((suite, i) => [String(i), suite.name]));
  document.getElementById("choices").addEventListener("change", choose);
  DARK.addEventListener("change", choose);
  choose();
}
