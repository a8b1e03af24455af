// The curves of the chosen cell, over epochs, bytes or seconds.
"use strict";

const BASELINE_WIDTH = 4, LINE_WIDTH = 1.8;

function over() {
  return document.querySelector("#curves input[name=over]:checked").value;
}

async function showCurves() {
  const runs = rowsOf("runs");
  const axis = over();
  const inThisCell = rowsOf("curves").filter((row) => inCell(runs[row.run]));
  const done = inThisCell.filter((row) => runs[row.run].status === "done");
  const methods = unique(done.map((row) => runs[row.run].method));
  const drawn = done
    .filter((row) => axis === "epochs" || (axis === "bytes" ? row.megabytes > 0 : row.seconds !== null))
    .map((row) => withRun(row, runs[row.run]));
  const simulated = axis === "seconds" ? simulatedPoints(methods) : [];
  const nothing = !drawn.length && !simulated.length;
  const place = document.querySelector("#curves .chart");
  place.hidden = nothing;
  const note = curvesNote(axis, drawn, simulated, inThisCell.length - done.length);
  document.getElementById("curves-note").textContent = note;
  if (nothing) return;
  const description =
    `Accuracy over ${axis} of ${methods.join(", ")} on ${cellName()}. The leader table has the numbers.`;
  const view = await draw(place, `curves_over_${axis}`, { runs: drawn, simulated }, description, methods);
  view.addEventListener("click", (_, item) => {
    if (item?.datum?.id) location.hash = item.datum.id;
  });
}

function withRun(row, run) {
  const baseline = chosen.suite.baselines.indexOf(run.method);
  const look = { width: baseline < 0 ? LINE_WIDTH : BASELINE_WIDTH, dashed: Number(baseline > 0) };
  return { ...row, method: run.method, id: run.id, label: `${run.method}, seed${run.repetition}`, ...look };
}

// Predicted seconds until the target accuracy, in the chosen place. They are no curves.
function simulatedPoints(methods) {
  return rowsOf("places")
    .filter((row) => inCell(row, SIMULATED_CELL) && placeName(row) === chosen.place)
    .filter((row) => row.kind === "simulated")
    .filter((row) => Number.isFinite(row.seconds_to_target) && methods.includes(row.method))
    .map((row) => ({
      method: row.method,
      seconds: row.seconds_to_target,
      accuracy_percent: row.target_accuracy_percent,
    }));
}

function curvesNote(axis, drawn, simulated, rest) {
  const notes = [];
  if (drawn.length) {
    notes.push("Thin lines are runs, thick ones the mean over the runs that are done.");
    notes.push("The baselines are the thickest; the dashed one is a variant of the first.");
    notes.push("A click on a point opens its run.");
  }
  if (axis === "seconds" && !drawn.length) {
    notes.push("No run of this cell was timed, so there are no curves over seconds.");
  }
  if (simulated.length) {
    notes.push(`Hollow points are predictions, for ${chosen.place}:`);
    notes.push("the seconds until a method reaches the target.");
  }
  if (axis === "bytes") notes.push("The bytes of preparations are counted.");
  if (rest) notes.push("Runs that are not done are left out.");
  return notes.join(" ");
}
