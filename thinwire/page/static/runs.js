// The runs: a line for each, which opens to its curve, its ledgers and its provenance.
"use strict";

function showRuns() {
  document.querySelectorAll("#runs details").forEach((run) => {
    const [suite, row] = runOf(run);
    run.hidden = !(suite === chosen.suite && inCell(row));
  });
}

function runOf(run) {
  const suite = DATA.suites[Number(run.dataset.suite)];
  return [suite, rowsOf("runs", suite)[Number(run.dataset.run)]];
}

// A run is filled when it is opened for the first time: there may be thousands.
function fillRun(run) {
  if (!run.open || run.dataset.filled) return;
  run.dataset.filled = "yes";
  const [suite, row] = runOf(run);
  const number = Number(run.dataset.run);
  const chart = element("div", { class: "chart" });
  const ledger = rowsOf("ledgers", suite).filter((entry) => entry.run === number);
  const heading = (text) => element("h4", {}, text);
  run.append(resultOf(row), chart, heading("Ledgers"), ledgerTable(ledger));
  run.append(heading("Provenance"), provenanceOf(suite, row));
  const rows = rowsOf("curves", suite).filter((entry) => entry.run === number);
  const description = `Accuracy over epochs of ${row.id.replace("run-", "")}.`;
  if (rows.length) draw(chart, "run", { runs: rows }, description);
}

function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    list.append(element("dt", {}, name), element("dd", {}, value));
  }
  return list;
}

function resultOf(row) {
  return facts([
    ["status", row.status], ["reason", row.reason], ["no time, because", row.no_time_because],
    ["accuracy at the end, %", row.accuracy_percent?.toFixed(2)], ["steps", row.steps],
    ["options", row.options],
    ["interruptions", row.interruptions || null],
  ]);
}

function provenanceOf(suite, row) {
  const origin = Object.entries(suite.origins[row.origin]).map(([name, value]) => [name, String(value)]);
  const own = [["seed", row.seed], ["fingerprint", row.fingerprint]];
  return facts([...placesOf(suite, row), ...own, ...origin]);
}

// The folder of a record and its files; only its archive is linked where there is one.
function placesOf(suite, row) {
  const link = (href, text) => element("a", { href }, text);
  if (suite.archive) return [["folder", row.folder], ["archive", link(suite.archive, suite.archive)]];
  const files = element("span");
  for (const name of ["run.json", "curve.parquet", "traffic.parquet", "log.txt"]) {
    files.append(link(`${row.folder}/${name}`, name), " ");
  }
  return [["folder", link(`${row.folder}/`, row.folder)], ["files", files]];
}

// Payload, wire and between-nodes bytes are never added up: they have columns of their own.
function ledgerTable(ledger) {
  const table = element("table");
  const bytes = (title, name) => {
    return { title, key: (row) => row[name], text: (row) => megabytes(row[name]), number: true };
  };
  fillTable(table, [
    { title: "channel", key: (row) => row.channel }, { title: "verb", key: (row) => row.verb },
    { title: "kind", key: (row) => row.kind },
    { title: "messages", key: (row) => row.messages, number: true },
    bytes("payload pushed, MB", "payload_push_bytes"), bytes("payload pulled, MB", "payload_pull_bytes"),
    bytes("wire sent, MB", "wire_sent_bytes"), bytes("wire received, MB", "wire_received_bytes"),
    bytes("between nodes, MB", "between_nodes_bytes"), bytes("most sent, MB", "wire_sent_max_bytes"),
    bytes("most received, MB", "wire_received_max_bytes"),
  ], ledger);
  return element("div", { class: "wide" }, table);
}

// Open what the address names, and choose its cell.
function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named?.tagName !== "DETAILS") return;
  if (named.dataset.run !== undefined) chooseCellOf(named);
  named.open = true;
  named.scrollIntoView();
}

function chooseCellOf(run) {
  const [suite, row] = runOf(run);
  select("suite").value = run.dataset.suite;
  choose(); // the lists are now those of the suite
  select("dataset").value = row.dataset;
  choose();
  select("model").value = row.model;
  choose();
  select("workers").value = sizeKey(row);
  choose();
}
