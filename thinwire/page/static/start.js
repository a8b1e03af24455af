// Connects the parts of the page.
"use strict";

[showLeaders, showCurves, offerSimulations, showDifferences, showRuns].forEach(whenChosen);
document.querySelectorAll("#curves input[name=over]").forEach((input) => input.addEventListener("change", showCurves));
select("simulation").addEventListener("change", showSimulation);
document.getElementById("rate").addEventListener("input", showRate);
document.querySelectorAll("#runs details").forEach((run) => run.addEventListener("toggle", () => fillRun(run)));
document.querySelectorAll("table.fixed").forEach(makeSortable);
window.addEventListener("hashchange", openNamed);
startChoices();
openNamed();
