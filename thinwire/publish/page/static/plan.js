// Which method, over which link: a form that chooses a simulated point, a table of its methods, and a map of the
// fastest methods. Each rate has links of several latencies; the form chooses the rank among these, the least first.
"use strict";

const TIMES = DATA.times;
const ACCURACY = {
  baseline: "a baseline", same: "as SSGD's", changed: "changed", inconclusive: "inconclusive", unknown: "unknown",
};
const point = {}; // the network, and the places among its lists of the place and of the link

const nameOf = ({ model, dataset, accelerator, suite }) => `${model}, ${dataset}, ${accelerator} (${suite})`;
const perNode = ([workers, nodes]) => workers / nodes;
const ratesOf = ({ links }) => unique(links.map(([rate]) => rate));
const linkOf = ({ links }, rate, rank) => [...links.keys()].filter((i) => links[i][0] === rate)[rank];
const milliseconds = (seconds) => `${Number((1e3 * seconds).toPrecision(4))} ms`;
// A number stands for a list over links that has no other.
const overLinks = (values, link) => (Array.isArray(values) ? values[link] : values) ?? null;

// A name that may break behind an underscore.
const breakable = (name) => name.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]);

// The methods at a place and a link that the form asks for, the fastest first. Of two that take as long, the
// baseline comes first.
function methodsAt(network, place, link) {
  const baseline = overLinks(network.baseline[place], link);
  const onlySame = document.querySelector("#plan [name=accuracy]:checked").value === "same";
  const rows = network.methods.map((method, i) => {
    const numberOf = (name) => overLinks(network[name][i][place], link);
    const [step, computing, bytes] = ["milliseconds", "computing", "bytes"].map(numberOf);
    return { ...TIMES.methods[method], method, place: i, step, computing, bytes, isBaseline: method === baseline };
  }).filter(({ step }) => step !== null);
  const least = rows.find((row) => row.isBaseline)?.step ?? NaN;
  return rows.map((row) => ({ ...row, gain: least / row.step }))
    .filter(({ known }) => !onlySame || ["baseline", "same"].includes(known))
    .sort((one, other) => one.step - other.step || other.isBaseline - one.isBaseline);
}

// The least rate from which on a method computes in most of its step; infinite if there is none.
function neededRate({ network, place, rank }, method) {
  const computesAt = (rate) => {
    const link = linkOf(network, rate, rank);
    const numberOf = (name) => overLinks(network[name][method][place], link);
    const [step, computing] = ["milliseconds", "computing"].map(numberOf);
    return step !== null && computing >= TIMES.utilisation * step;
  };
  const rates = ratesOf(network), tooLow = rates.findLastIndex((rate) => !computesAt(rate));
  return rates[tooLow + 1] ?? Infinity;
}

// Offer what was simulated of the chosen network, and show the chosen point.
function choosePoint() {
  const network = TIMES.networks.find((each) => nameOf(each) === at("choose-network").value);
  offer("per-node", unique(network.places.map(perNode)).sort((one, other) => one - other).map(String));
  const size = Number(at("choose-per-node").value);
  const places = [...network.places.keys()].filter((i) => perNode(network.places[i]) === size);
  const sizes = places.map((i) => String(network.places[i][0]));
  offer("workers", sizes, sizes.includes("16") ? "16" : sizes[0]);
  const rates = ratesOf(network), slider = at("link-rate");
  slider.max = rates.length - 1;
  at("link-rates").replaceChildren(...rates.map((_, i) => element("option", { value: i })));
  const rate = rates[slider.value];
  at("link-rate-shown").textContent = `${rate} Gbit/s`;
  slider.setAttribute("aria-valuetext", `${rate} Gbit/s`);
  const rank = offerLatencies(network.links.filter(([each]) => each === rate));
  const place = places[sizes.indexOf(at("choose-workers").value)];
  Object.assign(point, { network, places, place, rate, rank, link: linkOf(network, rate, rank) });
  showPoint();
  showMap();
}

// Those of a rate. If the rate changes, the rank stays; its latency may be another one.
function offerLatencies(links) {
  const list = at("choose-latency"), before = Number(list.value);
  list.replaceChildren(...links.map(([, seconds], rank) =>
    element("option", { value: rank }, milliseconds(seconds))));
  list.selectedIndex = before < links.length ? before : 0;
  list.disabled = links.length < 2;
  return list.selectedIndex;
}

function showPoint() {
  const { network, place, link, rate } = point, [workers, nodes] = network.places[place];
  const rows = methodsAt(network, place, link).map((row) => ({ ...row, needed: neededRate(point, row.place) }));
  const links = ({ method, module, colour, shape }) => [
    symbol(colour, shape),
    withRemark(element("a", { href: `#method-${module}` }, ...breakable(method)),
      DATA.reconstructed.includes(module) && "reconstructed"),
  ].flat();
  const known = (row) => [ACCURACY[row.known], row.accuracy].filter(Boolean).join(": ");
  fillTable("#plan-table", [
    ["method", "method", links],
    ["step, s", "step", ({ step }) => (step / 1e3).toPrecision(4)],
    ["MB sent", "bytes", ({ bytes }) => fixed(bytes / 1e6, 2)],
    ["speed-up", "gain", ({ gain }) => fixed(gain, 2)],
    ["Gbit/s needed", "needed", ({ needed }) => (needed === Infinity ? "none of those" : String(needed))],
    ["error, %", "error_percent", (row) => fixed(row.error_percent, 1) || "unknown"],
    ["class", "class"],
    ["accuracy", known],
  ], rows);
  const baseline = overLinks(network.baseline[place], link);
  const inside = overLinks(network.validated[place], link) ? "inside" : "outside";
  at("plan-words").textContent = [
    rows.length ? "" : "No such method was simulated here.",
    "MB sent: between nodes, a step and worker.",
    baseline ? `Speed-up: over ${baseline}, the fastest SSGD here.` : "No SSGD was simulated here.",
    `Gbit/s needed: the least simulated rate from which on a worker computes in ${100 * TIMES.utilisation} % of the time.`,
    "Error: of a step in the validation of the simulator, the median of the method's class.",
    TIMES.validated ? `It had ${TIMES.validated}: this is ${inside} of it.` : "",
    `Accuracy: beside ssgd in the suite ${TIMES.study}, on two small networks.`,
  ].filter(Boolean).join(" ");
  const code = (...words) => element("code", {}, words.join(" "));
  at("plan-commands").replaceChildren(facts({
    "these times": code("thinwire times", network.suite, `--only models=${network.model}`),
    "a point like this": code("thinwire plan --model", network.model, "--workers", workers, "--per-node", workers / nodes,
      "--rate", rate, "--latency", parseFloat(milliseconds(network.links[link][1])), "--accelerator", network.accelerator),
  }));
}

// A row for each number of workers, the least at the bottom as in figures; a column for each rate.
function showMap() {
  const { network, places, rank } = point, rates = ratesOf(network);
  const heads = ["workers", ...rates.map((rate) => `${rate} Gbit/s`)];
  const rows = [...places].reverse().map((place) => element("tr", {},
    element("th", { scope: "row" }, network.places[place][0].toLocaleString("en")),
    ...rates.map((rate) => element("td", {}, ...mapCell(place, linkOf(network, rate, rank), rate)))));
  at("map-name").textContent = `The fastest method and its speed-up over the best SSGD: ${nameOf(network)}, ` +
    `${perNode(network.places[point.place])} GPUs a node, ${latencyWords(network, rank)}`;
  at("map").style.setProperty("--rates", rates.length);
  at("map").replaceChildren(
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, ...rows),
  );
  const used = unique([...at("map").querySelectorAll("button")].map((button) => button.className));
  for (const key of at("map-key").querySelectorAll("b")) {
    key.parentElement.hidden = !used.some((state) => key.classList.contains(state));
  }
}

function latencyWords(network, rank) {
  const links = ratesOf(network).map((rate) => linkOf(network, rate, rank)).filter((link) => link !== undefined);
  const seconds = links.map((link) => network.links[link][1]);
  const [least, most] = [Math.min(...seconds), Math.max(...seconds)].map(milliseconds);
  return least === most ? `a latency of ${least}` : `latencies of ${least} to ${most}`;
}

// A button that chooses the point; none where nothing was simulated.
function mapCell(place, link, rate) {
  const { network } = point, [fastest] = link === undefined ? [] : methodsAt(network, place, link);
  if (!fastest) return [];
  const { method, colour, known, gain } = fastest, [workers] = network.places[place];
  const button = element("button", {
    type: "button", class: gain < TIMES.least_gain ? "none" : known, style: `--method: ${colour}`,
    title: `accuracy: ${ACCURACY[known]}`,
    "aria-pressed": place === point.place && link === point.link,
  }, element("span", {}, ...breakable(method)), " ", element("b", {}, fixed(gain, 2)));
  button.addEventListener("click", () => {
    at("choose-workers").value = workers;
    at("link-rate").value = ratesOf(network).indexOf(rate);
    choosePoint();
    at("map").querySelector("[aria-pressed=true]").focus({ preventScroll: true });
  });
  return [button];
}

offer("network", TIMES.networks.map(nameOf));
choosePoint();
at("plan-form").addEventListener("input", choosePoint);
