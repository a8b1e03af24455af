// The leader table of the chosen cell.
"use strict";

const KINDS = { inprocess: "in process" };

function showLeaders() {
  const rows = rowsOf("leaders").filter((row) => inCell(row));
  const place = chosen.place;
  const times = new Map(
    rowsOf("places").filter((row) => inCell(row, SIMULATED_CELL) && placeName(row) === place)
      .map((row) => [row.method, row]),
  );
  const timed = (row) => times.get(row.method);
  const virtual = (row) => (row.virtual_epochs === null ? "" : ` for ${row.virtual_epochs}`);
  const epochs = (row) => row.epochs + virtual(row);
  const columns = [
    { title: "method", key: (row) => row.method, text: (row) => methodLink(row.method) },
    { title: "runs", key: (row) => row.kind, text: (row) => KINDS[row.kind] ?? row.kind },
    { title: "payload, MB", key: (row) => row.payload_bytes, text: payloadText, number: true },
    { title: "saved, %", key: (row) => row.saved_percent, text: savedText, number: true },
    {
      title: `accuracy on ${chosen.suite.evaluated_on}, %`, key: (row) => row.accuracy_percent,
      text: accuracyText, number: true,
    },
  ];
  if (unique(rows.map(epochs)).length > 1) {
    columns.push({ title: "epochs", key: (row) => row.epochs, text: epochs, number: true });
  }
  if (rows.some((row) => "words" in row)) {
    columns.push({ title: "verdict", key: (row) => row.words, words: true });
  }
  if (rows.some((row) => "epochs_median" in row)) {
    const text = (row) => (row.epochs_median === Infinity ? "not reached" : row.epochs_median ?? "");
    columns.push({ title: "epochs to target", key: (row) => row.epochs_median, text, number: true });
  }
  const [first] = times.values();
  if (first) columns.push(...timeColumns(timed, first.nodes));
  const recipes = chosen.suite.recipes;
  if (Object.keys(recipes).length) {
    columns.push({ title: "recipe", key: (row) => recipes[row.method], words: true });
  }
  fillTable(document.querySelector("#leaders table"), columns, rows);
  document.getElementById("recipes-note").textContent = chosen.suite.recipes_note;
  document.getElementById("times-note").textContent = first ? timesNote(first, times) : NO_TIMES;
  const reasons = rows.filter((row) => row.reason).map((row) => `${row.method}: ${row.reason}.`);
  document.getElementById("reasons").replaceChildren(...reasons.length ? [prose(reasons.join(" "))] : []);
}

// `timed` gives the row with the times of a row; none where the method has no time in the chosen place, which
// has this many nodes: a cell may be simulated on other numbers of nodes than its runs had.
function timeColumns(timed, nodes) {
  const on = nodes === chosen.cell.nodes ? "" : ` on ${nodesOf(nodes)}`;
  const withKind = (row, text) => (text ? element("span", {}, text, below(`(${timed(row).kind})`)) : "");
  return [
    {
      title: `time to target${on}`, key: (row) => timed(row)?.seconds_to_target,
      text: (row) => withKind(row, seconds(timed(row)?.seconds_to_target)), number: true,
    },
    {
      title: `speed-up${on} (how)`, key: (row) => timed(row)?.speed_up,
      text: (row) => withKind(row, timed(row)?.speed_up?.toFixed(2)), number: true,
    },
  ];
}

const NO_TIMES = "No run of this cell has times, and it was not simulated.";

function timesNote(first, times) {
  const against = [...new Set([...times.values()].map((row) => row.baseline))].filter(Boolean).join(", ");
  const target = first.target_accuracy_percent;
  const words = target === null ? "" : ` The target is ${target.toFixed(2)} % accuracy.`;
  const how = first.kind === "simulated" ? " Simulated times are predictions." : "";
  return `Times are of: ${placeName(first)}. Speed-ups are over ${against || "no baseline"}.${words}${how}`;
}

function methodLink(label) {
  const module = chosen.suite.modules[label] ?? label;
  const link = element("a", { href: `#method-${module}` }, label);
  if (!DATA.reconstructed.includes(module)) return link;
  return element("span", {}, link, below("reconstructed"));
}

function payloadText(row) {
  const prepared = row.prepared_bytes ? ` + ${megabytes(row.prepared_bytes)} prepared` : "";
  return megabytes(row.payload_bytes) + prepared;
}

function savedText(row) {
  const prepared = row.prepared_bytes ? ` (${percent(row.saved_with_prepared_percent)} with prepared)` : "";
  return percent(row.saved_percent) + prepared;
}

function accuracyText(row) {
  if (!row.done) return row.not_done;
  const spread = row.accuracy_sd_percent === null ? "" : ` ± ${row.accuracy_sd_percent.toFixed(2)}`;
  const chance = row.at_chance_level ? `${row.at_chance_level} at chance level` : "";
  const rest = [chance, row.not_done].filter(Boolean).join(", ");
  const text = element("span", {}, `${row.accuracy_percent.toFixed(2)}${spread} (${row.done})`);
  if (rest) text.append(below(rest));
  return text;
}

// A remark on a line of its own in a cell of a table.
function below(text) {
  return element("small", { class: "below" }, ` ${text}`);
}

// How a person reads the place of a time: `ethernet_1g, here, 8 nodes (simulated)`.
function placeName(row) {
  return [row.cluster, row.profile, nodesOf(row.nodes)].filter(Boolean).join(", ") + ` (${row.kind})`;
}

function nodesOf(nodes) {
  return `${nodes} node${nodes > 1 ? "s" : ""}`;
}
