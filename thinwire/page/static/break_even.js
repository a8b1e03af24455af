// The break-even map: at which rates of the links a method is faster than the better baseline.
"use strict";

const FASTER = 1.005; // would not be shown as 1.00

function simulationName(row) {
  return `${row.cluster}, ${row.profile}, ${nodesOf(row.nodes)}`;
}

function ratesOfCell() {
  return rowsOf("speed_ups").filter((row) => inCell(row, SIMULATED_CELL));
}

function offerSimulations() {
  const rows = ratesOfCell();
  const names = unique(rows.map(simulationName));
  const sameNodes = rows.find((row) => inCell(row)) ?? rows[0];
  offer(select("simulation"), names.map((name) => [name, name]), sameNodes && simulationName(sameNodes));
  document.querySelector("#break-even .panel").hidden = !names.length;
  const other = rowsOf("speed_ups").length && !names.length;
  const words = "This cell is not simulated at several rates: choose another number of workers.";
  document.getElementById("rates-note").textContent = other ? words : "";
  showSimulation();
}

// Another cluster or profile: another map, and the range of the slider.
async function showSimulation() {
  const isChosen = (row) => simulationName(row) === select("simulation").value;
  const rows = ratesOfCell().filter(isChosen);
  if (!rows.length) return;
  const rates = unique(rows.map((row) => row.rate_gbit_per_second)).sort((a, b) => a - b);
  const slider = document.getElementById("rate");
  slider.min = Math.log10(rates[0]);
  slider.max = Math.log10(rates.at(-1));
  const marks = rates.map((rate) => element("option", { value: Math.log10(rate) }));
  document.getElementById("rates").replaceChildren(...marks);
  const methods = unique(rows.map((row) => row.method));
  const even = rowsOf("break_even").filter((row) => inCell(row, SIMULATED_CELL) && isChosen(row));
  showRate.state = { rows, rates, even };
  showRate();
  const datasets = {
    cells: rows.map((row) => cellOfMap(row, rates)),
    break_even: even.flatMap(crossings),
    chosen: [{ rate: chosenRate() }],
  };
  const description =
    `Speed-up of each method over the better baseline at ${rates.join(", ")} Gbit/s. ` +
    "The table has the numbers.";
  const place = document.querySelector("#break-even .chart");
  showRate.view = await draw(place, "break_even", datasets, description, methods);
  moveRule();
}

function cellOfMap(row, rates) {
  const i = rates.indexOf(row.rate_gbit_per_second);
  const between = (a, b) => Math.sqrt(a * b);
  // The first and the last column are as wide to both sides.
  const last = i + 1 === rates.length;
  const low = i ? between(rates[i - 1], rates[i]) : rates[0] ** 2 / between(rates[0], rates[1]);
  const high = last ? rates[i] ** 2 / low : between(rates[i], rates[i + 1]);
  const shown = row.speed_up < 9.995 ? row.speed_up.toFixed(2) : row.speed_up.toFixed(0);
  return { method: row.method, rate: rates[i], low, high, speed_up: row.speed_up, shown };
}

function crossings(row) {
  const ends = [row.from_gbit_per_second, row.to_gbit_per_second];
  const words = `${row.method}: ${evenWords(row)}`;
  const crossed = ends.filter((rate) => rate !== null && rate > 0 && rate !== Infinity);
  return crossed.map((rate) => ({ method: row.method, rate, words }));
}

function evenWords(row) {
  const [from, to] = [row.from_gbit_per_second, row.to_gbit_per_second];
  const gbit = (rate) => `${Number(rate.toPrecision(2))} Gbit/s`;
  if (from === null) return "faster at no rate shown";
  if (to === Infinity) return from ? `faster above ${gbit(from)}` : "faster at all rates shown";
  return from ? `faster from ${gbit(from)} to ${gbit(to)}` : `faster below ${gbit(to)}`;
}

function chosenRate() {
  return 10 ** Number(document.getElementById("rate").value);
}

// Between two simulated rates the speed-up is interpolated on logarithmic axes, as the break-even rates are.
function speedUpAt(rows, rate) {
  const i = rows.findIndex((row) => row.rate_gbit_per_second >= rate * (1 - 1e-9));
  if (i <= 0) return rows.at(i).speed_up;
  const [a, b] = [rows[i - 1], rows[i]];
  const [low, high] = [a.rate_gbit_per_second, b.rate_gbit_per_second];
  const share = Math.log(rate / low) / Math.log(high / low);
  return a.speed_up * (b.speed_up / a.speed_up) ** Math.min(share, 1);
}

function showRate() {
  if (!showRate.state) return;
  const { rows, rates, even } = showRate.state;
  const rate = chosenRate();
  const simulated = rates.some((known) => Math.abs(Math.log10(known / rate)) < 1e-3);
  const words = `${Number(rate.toPrecision(3))} Gbit/s`;
  document.getElementById("rate").setAttribute("aria-valuetext", words);
  const how = simulated ? "simulated" : "interpolated";
  document.getElementById("rate-shown").textContent = `${words} (${how})`;
  const at = unique(rows.map((row) => row.method)).map((method) => {
    const own = rows.filter((row) => row.method === method);
    own.sort((a, b) => a.rate_gbit_per_second - b.rate_gbit_per_second);
    return { method, ratio: speedUpAt(own, rate), even: even.find((row) => row.method === method) };
  });
  const isBaseline = (row) => chosen.suite.baselines.includes(row.method);
  const evenText = (row) => (isBaseline(row) ? "a baseline" : evenWords(row.even));
  const ratio = (row) => element(row.ratio > FASTER ? "strong" : "span", {}, row.ratio.toFixed(2));
  const columns = [
    { title: "method", key: (row) => row.method, text: (row) => methodLink(row.method) },
    { title: "speed-up", key: (row) => row.ratio, text: ratio, number: true },
    { title: "break-even", key: evenText, words: true },
  ];
  fillTable(document.querySelector("#break-even table"), columns, at);
  moveRule();
}

function moveRule() {
  showRate.view?.data("chosen", [{ rate: chosenRate() }]).run();
}
