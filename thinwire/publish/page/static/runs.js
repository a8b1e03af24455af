// Filters of claims, what methods have reached, and runs; then the page is opened.
"use strict";

const FILES = ["run.json", "curve.parquet", "traffic.parquet", "log.txt"];
// Payload, wire and between-nodes bytes are never added up: they have columns of their own.
const LEDGERS = {
  "payload pushed": "payload_push_bytes", "payload pulled": "payload_pull_bytes",
  "wire sent": "wire_sent_bytes", "wire received": "wire_received_bytes",
  "between nodes": "between_nodes_bytes", "most sent": "wire_sent_max_bytes",
  "most received": "wire_received_max_bytes",
};

// Show the claims of a publication, or with a verdict, or both; the same button again shows all.
function filterClaims({ target }) {
  const button = target.closest("button.filter");
  if (!button) return;
  const wanted = button.ariaPressed === "true" ? {} : { ...button.dataset };
  for (const each of document.querySelectorAll("#claims button.filter")) {
    each.ariaPressed = each === button && Object.keys(wanted).length > 0;
  }
  for (const claim of document.querySelectorAll("#claims .claim")) {
    claim.hidden = Object.entries(wanted).some(([name, value]) => claim.dataset[name] !== value);
  }
  const folded = at("untested-claims");
  const shown = folded.querySelectorAll(".claim:not([hidden])").length;
  folded.hidden = shown === 0;
  folded.querySelector(".count").textContent = shown;
  folded.open = Object.keys(wanted).length > 0;
}

// What a method has reached in all suites.
function fillMethod(section) {
  const results = element("table");
  fillTable(results, [
    ["label", "method"], ["suite", "suite"], ["data set, model, workers", "cell"],
    ["score", "score_mean", (row) => scoreText(row.score_mean, row.score)],
    ["payload, MB", "total_bytes", (row) => megabytes(row.total_bytes)],
    ["saved, %", "total_reduction_percent", (row) => fixed(row.total_reduction_percent, 1)],
  ], DATA.suites.flatMap((suite) => rowsOf("summary", suite)
    .filter((row) => `method-${suite.modules[row.method]}` === section.id)
    .map((row) => ({ ...row, suite: suite.name, score: suite.score }))));
  section.append(element("h4", {}, "Results"), element("div", { class: "wide" }, results));
}

function idOf(run, suite = chosen.suite) {
  return `run-${suite.name}/${run.path}`;
}

// A fold for each method, with a line for each run, which opens to its curve, its ledgers and its provenance.
function showRuns() {
  if (showRuns.cell === chosen.cell) return; // what is open stays open
  showRuns.cell = chosen.cell;
  const rows = here("runs");
  at("run-lines").replaceChildren(...unique(rows.map(({ method }) => method)).map((method) => {
    const lines = rows.filter((row) => row.method === method).map(runLine);
    const summary = element("summary", {}, element("h3", {}, method), " ",
      element("span", {}, `${lines.length} run${lines.length > 1 ? "s" : ""}`));
    return element("details", { class: "runs" }, summary, ...lines);
  }));
}

function runLine(row) {
  const ended = row.status === "done" ? "" : `, ${row.status}`;
  const { name, unit, digits } = chosen.suite.score;
  const outcome = row.score === null ? row.status : `${fixed(row.score, digits)} ${unit || name}${ended}`;
  const summary = element("summary", {}, element("h4", {}, row.path), " ", element("span", {}, outcome));
  const line = element("details", { id: idOf(row) }, summary);
  line.addEventListener("toggle", () => fillRun(line, row), { once: true });
  return line;
}

function fillRun(line, row) {
  const { suite } = chosen, number = rowsOf("runs").indexOf(row), folder = `runs/${suite.name}/${row.path}`;
  const link = (href, text) => element("a", { href }, text);
  // Beside committed results the records are in an archive, and their folders may not be there.
  const files = FILES.flatMap((file) => [link(`${folder}/${file}`, file), " "]);
  const places = suite.archive ? { folder, archive: link(suite.archive, suite.archive) }
    : { folder: link(`${folder}/`, folder), files };
  const chart = element("div", { class: "chart" }), ledger = element("table");
  fillTable(ledger, [
    ["channel", "channel"], ["verb", "verb"], ["kind", "payload_kind"], ["messages", "messages"],
    ...Object.entries(LEDGERS).map(([title, key]) => [`${title}, MB`, key, (entry) => megabytes(entry[key])]),
  ], rowsOf("ledgers").filter((entry) => entry.run === number));
  line.append(
    facts({
      status: row.status, reason: row.reason, "no time, because": row.no_time_because,
      [titleOf(suite.score, `${suite.score.name} at the end`)]: fixed(row.score, suite.score.digits), steps: row.steps, options: row.options,
      interruptions: row.interruptions || null,
    }),
    chart, element("h5", {}, "Ledgers"), element("div", { class: "wide" }, ledger),
    element("h5", {}, "Provenance"),
    facts({ ...places, seed: row.seed, fingerprint: row.fingerprint, ...suite.origins[row.origin] }),
  );
  const curve = rowsOf("curves").filter((entry) => entry.run === number);
  draw(chart, curve.length && runChart(curve, suite.score), `The ${suite.score.name} over epochs of ${suite.name}/${row.path}.`);
}

function facts(values) {
  const known = Object.entries(values).filter(([, value]) => (value ?? "") !== "");
  return element("dl", {}, known.flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, value)]));
}

// Open what the address names; of a run, choose its cell first.
function openNamed() {
  const id = decodeURIComponent(location.hash.slice(1));
  for (const suite of DATA.suites.filter(({ name }) => id.startsWith(`run-${name}/`))) {
    const run = rowsOf("runs", suite).find((row) => idOf(row, suite) === id);
    if (!run) continue;
    at("choose-suite").value = suite.name;
    choose(run.cell);
  }
  const named = at(id);
  if (named?.tagName !== "DETAILS") return;
  for (let part = named; part; part = part.parentElement.closest("details")) part.open = true;
  named.scrollIntoView();
}

function start() {
  offer("suite", DATA.suites.map(({ name }) => name));
  choose();
  at("claims").addEventListener("click", filterClaims);
  at("choices").addEventListener("change", () => choose());
  at("choose-simulation").addEventListener("change", showSimulation);
  at("rate").addEventListener("input", showRate);
  document.querySelector("#curves fieldset").addEventListener("change", showCurves);
  for (const method of document.querySelectorAll("#methods details")) {
    method.addEventListener("toggle", () => fillMethod(method), { once: true });
  }
  window.addEventListener("hashchange", openNamed);
  openNamed();
}

start();
