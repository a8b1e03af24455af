// Connects the parts of the page.
"use strict";

[showLeaders, showCurves, offerSimulations, showDifferences, showRuns].forEach(whenChosen);
document.querySelector("#curves fieldset").addEventListener("change", showCurves);
select("simulation").addEventListener("change", showSimulation);
document.getElementById("rate").addEventListener("input", showRate);
for (const run of document.querySelectorAll("#runs details")) {
  run.addEventListener("toggle", () => fillRun(run));
}
document.querySelectorAll("table.fixed").forEach(makeSortable);
window.addEventListener("hashchange", openNamed);
startChoices();
openNamed();
