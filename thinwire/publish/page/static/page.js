// What is chosen at the top of the page, and the sections that compare methods.
"use strict";

const at = (id) => document.getElementById(id);
const unique = (values) => [...new Set(values)];
const DATA = JSON.parse(at("data").textContent);
const chosen = {};
const BASELINE_WIDTH = 3, LINE_WIDTH = 1.8;
const MOST_MARGINS = 20; // how far the chart of differences reaches, in margins

// The rows of a table of a suite, as objects. Tables are decoded once.
function rowsOf(name, suite = chosen.suite) {
  suite.decoded ??= {};
  return (suite.decoded[name] ??= decode(suite.tables[name] ?? {}));
}

function decode(columns) {
  const numbers = { inf: Infinity, "-inf": -Infinity };
  const valuesOf = (column) => column.codes?.map((code) => column.words[code] ?? null)
    ?? (column.rows && Array(column.rows).fill(column.every))
    ?? column.map((value) => numbers[value] ?? value);
  const lists = Object.entries(columns).map(([name, column]) => [name, valuesOf(column)]);
  const rowAt = (_, i) => Object.fromEntries(lists.map(([name, list]) => [name, list[i]]));
  return (lists[0]?.[1] ?? []).map(rowAt);
}

// Those of the chosen cell.
function here(name) {
  return rowsOf(name).filter((row) => row.cell === chosen.cell.name);
}

// Times of the chosen cell, of its own suite first. Those of other suites count for methods with the same options.
// Simulated clusters may have other numbers of nodes than the runs.
function timesOf(name) {
  const { suite, cell: { size } } = chosen;
  const optionsOf = (each) => {
    const sizes = Object.fromEntries(each.cells.map((cell) => [cell.name, cell.size]));
    const runs = rowsOf("runs", each).filter((row) => sizes[row.cell] === size);
    return Object.fromEntries(runs.map(({ method, options }) => [method, options]));
  };
  const own = optionsOf(suite);
  return [suite, ...DATA.suites.filter((each) => each !== suite)].flatMap((each) => {
    const rows = rowsOf(name, each).filter((row) => row.size === size);
    const options = rows.length && optionsOf(each);
    return rows.filter(({ method }) => each === suite || (options[method] ?? "") === own[method]);
  });
}

// Fill a list of choices. What was chosen stays, if it is still there; otherwise `first` is chosen. Numbers of four
// digits have a comma, as in figures.
function offer(name, names, first = names[0]) {
  const list = at(`choose-${name}`), before = list.value;
  const shown = (name) => name.replace(/^\d{4,}$/, (digits) => Number(digits).toLocaleString("en"));
  list.replaceChildren(...names.map((each) => element("option", { value: each }, shown(each))));
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
  offerPlaces("place", timesOf("places"));
  const texts = { ...suite, cell: chosen.cell.name, baseline: suite.baselines[0], score: suite.score.name };
  for (const each of document.querySelectorAll("[data-shown]")) each.textContent = texts[each.dataset.shown];
  for (const each of document.querySelectorAll("[data-without]")) {
    each.hidden = each.dataset.without in suite.tables;
  }
  [showSummary, showLoss, showCurves, showSimulations, showRuns].forEach((show) => show());
}

function methodLink({ method }) {
  const module = chosen.suite.modules[method] ?? method;
  const { colour, shape } = chosen.suite.looks[method] ?? {};
  const link = element("a", { href: `#method-${module}` }, method, DATA.reconstructed.includes(module) ? " *" : "");
  return shape ? [symbol(colour, shape), link] : link;
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
  return timesOf("places").filter((row) => row.place === at("choose-place").value);
}

// Methods that no other one surpasses in both: the mean score and the bytes, with those of preparations.
function frontOf(rows, sign) {
  const better = (one, other) => {
    const gains = [sign * (one.score_mean - other.score_mean), other.total_with_prepared_bytes - one.total_with_prepared_bytes];
    return gains.every((gain) => gain >= 0) && gains.some((gain) => gain > 0);
  };
  const known = rows.filter((row) => row.score_mean !== null && row.total_with_prepared_bytes !== null);
  return known.filter((row) => !known.some((other) => better(other, row)));
}

// What follows the first comma is a remark.
function onTwoLines(text) {
  return withRemark(...text.split(/, (.*)/));
}

function showSummary() {
  const { score, evaluated_on: on_which } = chosen.suite;
  const rows = here("summary"), times = timesHere(), [first] = times, front = frontOf(rows, score.sign);
  const timed = (row) => times.find((time) => time.method === row.method);
  const on = first && first.nodes !== chosen.cell.nodes ? ` on ${first.nodes} nodes` : "";
  const withKind = (row, text) => withRemark(text, text && timed(row).kind);
  const speedUp = (row) => (first && !timed(row) ? `no ${first.kind} time` : withKind(row, fixed(timed(row)?.speed_up, 2)));
  const ofTarget = (found) => (found?.target_score == null ? "" : ` ${fixed(found.target_score, score.digits)}`);
  const several = unique(rows.map((row) => row.epochs_text)).length > 1;
  const signed = (value) => (value > 0 ? "+" : "") + fixed(value, score.digits);
  fillTable("#summary table", [
    ["method", "method", (row) => withRemark(methodLink(row), chosen.suite.recipes[row.method])],
    [titleOf(score, `${score.name} on ${on_which}`), "score_mean",
      ({ score_text }) => onTwoLines(score_text), "dot"],
    [`difference, ${score.gain_unit}`, "gain_mean", (row) => (row.gain_mean === null ? "" :
      withRemark(signed(row.gain_mean), intervalOf(row.gain_low, row.gain_high, score.digits)))],
    ["verdict", "words", ({ words }) => words && element("span", { title: words }, words.split(":")[0])],
    ["payload, MB", "total_bytes", ({ payload }) => onTwoLines(payload), "bar"],
    ["saved, %", "total_reduction_percent", ({ saved }) => onTwoLines(saved)],
    ["front", (row) => (front.includes(row) ? 1 : null), (row) => (front.includes(row) ? "◆" : "")],
    [`speed-up${on}`, (row) => timed(row)?.speed_up, speedUp, "bar"],
    [`time to target${ofTarget(first)}${on}`, (row) => timed(row)?.seconds_to_target,
      (row) => withKind(row, reached(timed(row)?.seconds_to_target, " s"))],
    [`epochs to target${ofTarget(rows.find((row) => row.target_score !== null))}`, "epochs_median", (row) => reached(row.epochs_median)],
    ["epochs", (row) => (several ? row.epochs : null), "epochs_text"],
    ["runs", "kind", runsLink],
  ], rows);
  const reasons = rows.filter((row) => row.reason).map((row) => `${row.method}: ${row.reason}.`);
  at("reasons").replaceChildren(...prose(reasons.join(" ")));
  at("recipes-note").textContent = chosen.suite.recipes_note;
  at("times-note").textContent = "No run of this setting has times, and it was not simulated.";
  if (!first) return;
  const against = unique(times.map((row) => row.baseline)).filter(Boolean).join(", ") || "no baseline";
  at("times-note").textContent = `Times are of: ${first.place}. Speed-ups are over ${against}.` +
    (first.target_score === null ? "" : ` The target is ${scoreText(first.target_score, score)}.`) +
    (first.kind === "simulated" ? " Simulated times are predictions. On small networks, latencies may decide more than bytes." : "");
}

// What a method loses, and what it saves, in all cells of the suite.
function showLoss() {
  const { score, looks, baselines, cells } = chosen.suite;
  const rows = rowsOf("summary").filter((row) => row.gain_mean !== null && row.total_with_prepared_reduction_percent !== null)
    .map((row) => ({ ...row, saved_percent: row.total_with_prepared_reduction_percent,
      interval: intervalOf(row.gain_low, row.gain_high, score.digits) }));
  const [{ margin } = {}] = rows, widest = MOST_MARGINS * margin;
  const ends = rows.flatMap((row) => ["mean", "low", "high"].map((end) => row[`gain_${end}`]));
  // One wide interval does not hide the others.
  const isNarrow = (row) => row.gain_high - row.gain_low < widest / 2;
  const seen = rows.flatMap((row) => (isNarrow(row) ? [row.gain_low, row.gain_high] : [row.gain_mean]));
  const within = (end) => Math.max(-widest, Math.min(end, widest));
  const reach = [within(Math.min(...seen, -2 * margin)), within(Math.max(...seen, 2 * margin))];
  at("loss-note").textContent = !rows.length ? "" :
    `Differences are to ${baselines[0]}, in pairs of runs with the same seed. Lines are 95 % intervals. ` +
    `The band is the margin of ± ${margin} ${score.gain_unit}.` +
    (Math.min(...ends) < reach[0] || Math.max(...ends) > reach[1] ? " What lies outside is cut; the table has it." : "");
  at("no-loss").hidden = rows.length > 0;
  const order = cells.map(({ name }) => name).filter((name) => rows.some((row) => row.cell === name));
  const place = document.querySelector("#loss .chart");
  draw(place, rows.length && lossChart(rows, order, margin, reach, score, looks, place.parentElement.clientWidth),
    `Differences in ${score.name} to ${baselines[0]} over the bytes saved, for each place. The table has the numbers.`);
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
    return { ...row, method, label: `${method}, seed${repetition}`, width, link: `#${idOf(run)}` };
  });
  // Predicted seconds until the target, in the chosen place. They are no curves.
  const simulated = timesHere().filter((row) => over === "seconds" && row.kind === "simulated")
    .filter((row) => Number.isFinite(row.seconds_to_target) && methods.includes(row.method))
    .map(({ method, seconds_to_target: seconds, target_score: target }) =>
      ({ method, seconds, score: target }));
  at("curves-note").textContent = over === "seconds" && !drawn.length ? "No run of this setting was timed." : "";
  const { score, looks } = chosen.suite, place = document.querySelector("#curves .chart");
  const spec = drawn.length + simulated.length && curvesChart(
    over, drawn, simulated, methods, looks, score, at("whole").checked, place.parentElement.clientWidth);
  draw(place, spec, `The ${score.name} over ${over} of ${methods.join(", ")} on ${chosen.cell.name}. ` +
    "The table has the numbers.");
}

function showSimulations() {
  const rows = timesOf("speed_ups");
  offerPlaces("simulation", rows);
  document.querySelector("#break-even .panel").hidden = !rows.length;
  at("rates-note").hidden = rows.length;
  if (rows.length) showSimulation();
}

function ofSimulation(name) {
  return timesOf(name).filter((row) => row.place === at("choose-simulation").value);
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
  const steps = Object.fromEntries(here("summary").map((row) => [row.method, row.steps_median]));
  const timed = rows.map(({ method, rate_gbit_per_second: rate, step_seconds }) => ({ method, rate, seconds: step_seconds * steps[method] }))
    .filter(({ seconds }) => seconds > 0 && seconds < Infinity);
  draw("#seconds", timed.length && secondsChart(timed, chosen.suite.looks),
    `Simulated seconds until ${unique(timed.map(({ method }) => method)).join(", ")} reach the target, over the rate.`);
  draw("#speed-ups", breakEvenChart(cells, crossings),
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
  const rows = ofSimulation("speed_ups"), rate = 10 ** Number(at("rate").value), ranges = ofSimulation("break_even");
  const evenOf = (method) => unique(ranges.filter((row) => row.method === method).map(evenWords)).join(", ");
  const isSimulated = rows.some((row) => Math.abs(Math.log10(row.rate_gbit_per_second / rate)) < 1e-3);
  at("rate-shown").textContent = `${reached(rate)} Gbit/s (${isSimulated ? "simulated" : "interpolated"})`;
  at("rate").setAttribute("aria-valuetext", `${reached(rate)} Gbit/s`);
  fillTable("#break-even table", [
    ["method", "method", methodLink],
    ["speed-up", "speed_up", ({ speed_up: by }) => element(fixed(by, 2) > 1 ? "b" : "span", {}, fixed(by, 2))],
    ["break-even", "even"],
  ], unique(ranges.map(({ method }) => method)).map((method) => ({
    method,
    speed_up: speedUpAt(rows.filter((row) => row.method === method), rate),
    even: chosen.suite.baselines.includes(method) ? "a baseline" : evenOf(method),
  })));
}

function intervalOf(low, high, digits) {
  return low === null || high === null ? "" : `${fixed(low, digits)} to ${fixed(high, digits)}`;
}
