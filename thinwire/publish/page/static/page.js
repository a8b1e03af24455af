// What is chosen at the top of the page, and the sections that compare methods.
"use strict";

const at = (id) => document.getElementById(id);
const unique = (values) => [...new Set(values)];
const DATA = JSON.parse(at("data").textContent);
const chosen = {};
const BASELINE_WIDTH = 4, LINE_WIDTH = 1.8;
const MOST_MARGINS = 20; // how far the chart of differences reaches, in margins

// The rows of a table of a suite, as objects. Tables are decoded once.
function rowsOf(name, suite = chosen.suite) {
  suite.decoded ??= {};
  return (suite.decoded[name] ??= decode(suite.tables[name] ?? {}));
}

function decode(columns) {
  const numbers = { inf: Infinity, "-inf": -Infinity };
  const valuesOf = (column) => column.codes?.map((code) => column.words[code] ?? null)
    ?? column.map((value) => numbers[value] ?? value);
  const lists = Object.entries(columns).map(([name, column]) => [name, valuesOf(column)]);
  const rowAt = (_, i) => Object.fromEntries(lists.map(([name, list]) => [name, list[i]]));
  return (lists[0]?.[1] ?? []).map(rowAt);
}

// Those of the chosen cell. Simulated clusters may have other numbers of nodes than the runs.
function here(name) {
  const { name: cell, size } = chosen.cell;
  return rowsOf(name).filter((row) => row.cell === cell || row.size === size);
}

// Fill a list of choices. What was chosen stays, if it is still there; otherwise `first` is chosen.
function offer(name, names, first = names[0]) {
  const list = at(`choose-${name}`), before = list.value;
  list.replaceChildren(...names.map((each) => element("option", {}, each)));
  list.value = names.includes(before) ? before : first;
  list.disabled = names.length < 2;
}

// Places of times; first one with as many nodes as the runs had.
function offerPlaces(name, rows) {
  const first = rows.find((row) => row.nodes === chosen.cell.nodes) ?? rows[0];
  offer(name, rows.length ? unique(rows.map((row) => row.place)) : ["none"], first?.place);
}

// Show what is chosen; `cell` is the name of one that is chosen instead.
function choose(cell) {
  const suite = (chosen.suite = DATA.suites.find(({ name }) => name === at("choose-suite").value));
  offer("cell", suite.cells.map(({ name }) => name));
  if (cell) at("choose-cell").value = cell;
  chosen.cell = suite.cells.find(({ name }) => name === at("choose-cell").value);
  offerPlaces("place", here("places"));
  const texts = { ...suite, cell: chosen.cell.name, baseline: suite.baselines[0], score: suite.score.name };
  for (const each of document.querySelectorAll("[data-shown]")) each.textContent = texts[each.dataset.shown];
  for (const each of document.querySelectorAll("[data-without]")) {
    each.hidden = each.dataset.without in suite.tables;
  }
  [showLeaders, showCurves, showSimulations, showDifferences, showRuns].forEach((show) => show());
}

function methodLink({ method }) {
  const module = chosen.suite.modules[method] ?? method;
  const link = element("a", { href: `#method-${module}` }, method);
  return withRemark(link, DATA.reconstructed.includes(module) && "reconstructed");
}

// The first run of a row; the others stand beside it.
function runsLink({ method, kind }) {
  const run = here("runs").find((each) => each.method === method);
  return element("a", { href: `#${idOf(run)}` }, kind === "inprocess" ? "in\u00a0process" : kind);
}

function reached(value, unit = "") {
  return value === Infinity ? "not reached" : value == null ? "" : Number(value.toPrecision(3)) + unit;
}

// A missing score is empty, as a missing number is.
function scoreText(value, { name, unit, digits }) {
  return value === null ? "" : `${fixed(value, digits)} ${unit ? `${unit} ${name}` : name}`;
}

function timesHere() {
  return here("places").filter((row) => row.place === at("choose-place").value);
}

function showLeaders() {
  const { score, evaluated_on: on_which } = chosen.suite;
  const rows = here("leaders"), times = timesHere(), [first] = times;
  const timed = (row) => times.find((time) => time.method === row.method);
  const on = first && first.nodes !== chosen.cell.nodes ? ` on ${first.nodes} nodes` : "";
  const withKind = (row, text) => withRemark(text, text && `(${timed(row).kind})`);
  const several = unique(rows.map((row) => row.epochs_text)).length > 1;
  fillTable("#leaders table", [
    ["method", "method", methodLink],
    ["runs", "kind", runsLink],
    ["payload, MB", "total_bytes", "payload"],
    ["saved, %", "total_reduction_percent", "saved"],
    [titleOf(score, `${score.name} on ${on_which}`), "score_mean",
      (row) => withRemark(...row.score_text.split(/, (.*)/))],
    ["epochs", (row) => (several ? row.epochs : null), "epochs_text"],
    ["verdict", "words"],
    ["epochs to target", "epochs_median", (row) => reached(row.epochs_median)],
    [`time to target${on}`, (row) => timed(row)?.seconds_to_target,
      (row) => withKind(row, reached(timed(row)?.seconds_to_target, " s"))],
    [`speed-up${on} (how)`, (row) => timed(row)?.speed_up,
      (row) => withKind(row, fixed(timed(row)?.speed_up, 2))],
    ["recipe", (row) => chosen.suite.recipes[row.method]],
  ], rows);
  const reasons = rows.filter((row) => row.reason).map((row) => `${row.method}: ${row.reason}.`);
  at("reasons").replaceChildren(...prose(reasons.join(" ")));
  at("recipes-note").textContent = chosen.suite.recipes_note;
  at("times-note").textContent = "No run of this cell has times, and it was not simulated.";
  if (!first) return;
  const against = unique(times.map((row) => row.baseline)).filter(Boolean).join(", ") || "no baseline";
  const target = first.target_score;
  at("times-note").textContent = `Times are of: ${first.place}. Speed-ups are over ${against}.` +
    (target === null ? "" : ` The target is ${scoreText(target, score)}.`) +
    (first.kind === "simulated" ? " Simulated times are predictions." : "");
}

function showCurves() {
  const over = document.querySelector("[name=over]:checked").value;
  const runs = rowsOf("runs");
  const isDone = ({ cell, status }) => cell === chosen.cell.name && status === "done";
  const done = rowsOf("curves").filter((row) => isDone(runs[row.run]));
  const methods = unique(done.map(({ run }) => runs[run].method));
  // No bytes have no place on a logarithmic axis.
  const drawn = done.filter((row) => row[OVER[over][0]] > 0).map((row) => {
    const { method, repetition, ...run } = runs[row.run], baseline = chosen.suite.baselines.indexOf(method);
    const width = baseline < 0 ? LINE_WIDTH : BASELINE_WIDTH;
    const look = { method, label: `${method}, seed${repetition}`, width, dashed: Number(baseline > 0) };
    return { ...row, ...look, link: `#${idOf(run)}` };
  });
  // Predicted seconds until the target, in the chosen place. They are no curves.
  const simulated = timesHere().filter((row) => over === "seconds" && row.kind === "simulated")
    .filter((row) => Number.isFinite(row.seconds_to_target) && methods.includes(row.method))
    .map(({ method, seconds_to_target: seconds, target_score: target }) =>
      ({ method, seconds, score: target }));
  at("curves-note").textContent = over === "seconds" && !drawn.length ? "No run of this cell was timed." : "";
  const colours = Object.fromEntries(methods.map((method) => [method, chosen.suite.colours[method]]));
  const spec = drawn.length + simulated.length && curvesChart(over, drawn, simulated, colours, chosen.suite.score);
  draw("#curves .chart", spec, `The ${chosen.suite.score.name} over ${over} of ${methods.join(", ")} on ${chosen.cell.name}. ` +
    "The leader table has the numbers.");
}

function showSimulations() {
  const rows = here("speed_ups");
  offerPlaces("simulation", rows);
  document.querySelector("#break-even .panel").hidden = !rows.length;
  at("rates-note").hidden = rows.length || !rowsOf("speed_ups").length;
  if (rows.length) showSimulation();
}

function ofSimulation(name) {
  return here(name).filter((row) => row.place === at("choose-simulation").value);
}

// Another cluster: another map, and the range of the slider.
function showSimulation() {
  const rows = ofSimulation("speed_ups");
  const rates = unique(rows.map((row) => row.rate_gbit_per_second));
  Object.assign(at("rate"), { min: Math.log10(rates[0]), max: Math.log10(rates.at(-1)) });
  at("rates").replaceChildren(...rates.map((rate) => element("option", { value: Math.log10(rate) })));
  showRate();
  // Each column reaches halfway to the next; the first and the last are as wide to both sides.
  const middle = (i) => Math.sqrt(rates[i - 1] * rates[i]);
  const cells = rows.map(({ method, rate_gbit_per_second: rate, speed_up }) => {
    const i = rates.indexOf(rate), low = i ? middle(i) : rate ** 2 / middle(1);
    const high = i + 1 < rates.length ? middle(i + 1) : rate ** 2 / low;
    return { method, rate, low, high, speed_up, shown: fixed(speed_up, speed_up < 9.995 ? 2 : 0) };
  });
  const crossings = ofSimulation("break_even").flatMap((row) => {
    const ends = [row.from_gbit_per_second, row.to_gbit_per_second];
    const words = `${row.method}: ${evenWords(row)}`;
    const crossed = ends.filter((rate) => rate > 0 && rate < Infinity);
    return crossed.map((rate) => ({ method: row.method, rate, words }));
  });
  draw("#break-even .chart", breakEvenChart(cells, crossings),
    `Speed-up of each method over the better baseline at ${rates.join(", ")} Gbit/s; the table has it, too.`);
}

function evenWords({ from_gbit_per_second: from, to_gbit_per_second: to }) {
  const gbit = (rate) => `${Number(rate.toPrecision(2))} Gbit/s`;
  if (from === null) return "faster at no rate shown";
  if (to === Infinity) return from ? `faster above ${gbit(from)}` : "faster at all rates shown";
  return from ? `faster from ${gbit(from)} to ${gbit(to)}` : `faster below ${gbit(to)}`;
}

// Between two simulated rates the speed-up is interpolated on logarithmic axes, as the break-even rates are.
function speedUpAt(rows, rate) {
  const i = rows.findIndex((row) => row.rate_gbit_per_second >= rate * (1 - 1e-9));
  if (i <= 0) return rows.at(i).speed_up;
  const point = (row) => [row.rate_gbit_per_second, row.speed_up];
  const [[low, a], [high, b]] = [point(rows[i - 1]), point(rows[i])];
  return a * (b / a) ** Math.min(Math.log(rate / low) / Math.log(high / low), 1);
}

// The table beside the map. The line in the map follows the slider by itself.
function showRate() {
  const rows = ofSimulation("speed_ups"), rate = 10 ** Number(at("rate").value);
  const isSimulated = rows.some((row) => Math.abs(Math.log10(row.rate_gbit_per_second / rate)) < 1e-3);
  at("rate-shown").textContent = `${reached(rate)} Gbit/s (${isSimulated ? "simulated" : "interpolated"})`;
  at("rate").setAttribute("aria-valuetext", `${reached(rate)} Gbit/s`);
  fillTable("#break-even table", [
    ["method", "method", methodLink],
    ["speed-up", "speed_up", ({ speed_up: by }) => element(fixed(by, 2) > 1 ? "b" : "span", {}, fixed(by, 2))],
    ["break-even", "even"],
  ], ofSimulation("break_even").map((row) => ({
    method: row.method,
    speed_up: speedUpAt(rows.filter((other) => other.method === row.method), rate),
    even: chosen.suite.baselines.includes(row.method) ? "a baseline" : evenWords(row),
  })));
}

function showDifferences() {
  const { score } = chosen.suite;
  const rows = here("comparisons").map((row) => (
    { ...row, interval: intervalOf(row.gain_low, row.gain_high, score.digits) }
  ));
  const signed = (value) => (value > 0 ? "+" : "") + fixed(value, score.digits);
  fillTable("#differences table", [
    ["method", "method", methodLink],
    [`difference, ${score.gain_unit}`, "gain_mean", (row) => signed(row.gain_mean)],
    ["95 % interval", "gain_low", "interval"],
    ["pairs", "n"],
    [`detectable, ${score.gain_unit}`, "detectable", (row) => fixed(row.detectable, score.digits)],
    ["verdict", "words"],
  ], rows);
  const pairs = rows.filter((row) => row.gain_mean !== null);
  const [{ against, margin } = {}] = pairs;
  const ends = pairs.flatMap((row) => ["mean", "low", "high"].map((end) => row[`gain_${end}`]));
  const widest = MOST_MARGINS * margin, furthest = Math.max(margin, ...ends.map(Math.abs));
  at("differences-note").textContent = !pairs.length ? "" :
    `Differences are to ${against}, in pairs of runs with the same seed. Lines are 95 % intervals. ` +
    `The band is the margin of ± ${margin} ${score.gain_unit}.` +
    (furthest > widest ? ` What lies beyond ± ${widest} ${score.gain_unit} is cut; the table has it.` : "");
  draw("#differences .chart", pairs.length && differencesChart(pairs, margin, Math.min(furthest, widest), score),
    `Differences in ${score.name} to ${against} on ${chosen.cell.name}. The table has the numbers.`);
}

function intervalOf(low, high, digits) {
  return low === null || high === null ? "" : `${fixed(low, digits)} to ${fixed(high, digits)}`;
}
