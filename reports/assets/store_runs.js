// The table of runs, shown in parts, and the choice of two runs to compare.
const PIECE = 100, MORE = 200;
const picked = [];
let shownRuns = [], shownCount = 0;
const ORDERS = {
  "": null,
  red: (a, b) => rank(a) - rank(b),
  time: (a, b) => (b.seconds ?? -1) - (a.seconds ?? -1),
  recovery: (a, b) => (b.recovered ?? -1) - (a.recovered ?? -1),
};

function rank(run) {
  if (run.verdict === 1) return run.mutant ? 1 : 0;
  return isRed(run) ? 2 : 3;
}

const encoded = (path) => path.split("/").map(encodeURIComponent).join("/");

function placeOf(run) {
  const path = pathOf(run);
  const place = element("td");
  if (!path) {
    place.append("no folder kept");
    return place;
  }
  if (COPIED !== null) {
    place.append(COPIED.has(path)
      ? element("a", { href: `${encoded(path)}/report.html`, text: run.name }) : run.name);
    return place;
  }
  const link = `${encoded(path)}/`;
  place.append(element("a", { href: run.report ? `${link}report.html` : link, text: run.name }));
  if (run.report) place.append(" · ", element("a", { href: link, text: "files" }));
  const label = element("label", { class: "pick" });
  const box = element("input", { type: "checkbox", "aria-label": `Compare ${run.name}` });
  box.checked = picked.includes(path);
  box.addEventListener("change", () => pick(path, box.checked));
  label.append(box, " compare");
  place.append(" ", label);
  return place;
}

function runRow(run) {
  const { label, css, sign } = VERDICTS[run.verdict];
  const why = element("td");
  if (run.red) why.append(element("span", { class: "class", text: run.red }), " ");
  if (run.kind) why.append(element("span", { class: "kind", text: run.kind }), " ");
  why.append(run.why);
  const night = element("td");
  if (run.night) {
    const page = `nights/${encodeURIComponent(run.night)}/${DATA.live ? "" : "index.html"}`;
    night.append(element("a", { href: page, text: run.night }));
  }
  return element("tr", {},
    element("td", {}, element("span", { class: `badge ${css}`, text: `${sign} ${label}` })),
    element("td", { text: run.group || `${run.system}-${run.workload}` }),
    placeOf(run),
    element("td", { class: "n", text: run.seed }),
    element("td", { text: run.faults.join(", ") || "none" }),
    element("td", { text: run.cluster }),
    element("td", { text: run.mutant || "clean" }),
    element("td", { class: "n", text: run.seconds === null ? "" : `${run.seconds.toFixed(1)} s` }),
    element("td", { class: "n", text: run.recovered === null ? "" : `${run.recovered.toFixed(2)} s` }),
    why, night);
}

function pick(path, on) {
  const at = picked.indexOf(path);
  if (on && at < 0) picked.push(path);
  if (!on && at >= 0) picked.splice(at, 1);
  const link = document.getElementById("compare-link");
  const text = document.getElementById("compare-text");
  link.hidden = picked.length !== 2;
  text.textContent = picked.length === 0 ? "Choose two runs to compare."
    : picked.length === 1 ? `${picked[0]} chosen; choose one more.`
    : picked.length === 2 ? `${picked[0]} and ${picked[1]}:`
    : "More than two are chosen.";
  if (picked.length === 2) {
    link.href = `compare?${new URLSearchParams({ a: picked[0], b: picked[1] })}`;
  }
}

function drawRuns(runs, state) {
  const order = ORDERS[state.sort];
  shownRuns = order ? [...runs].sort(order) : runs;
  shownCount = 0;
  document.querySelector("#run-table tbody").replaceChildren();
  showMore(PIECE);
  for (const button of document.querySelectorAll("#sort button")) {
    button.setAttribute("aria-pressed", String(button.dataset.sort === state.sort));
  }
}

function showMore(count) {
  const rows = shownRuns.slice(shownCount, shownCount + count).map(runRow);
  document.querySelector("#run-table tbody").append(...rows);
  shownCount += rows.length;
  const more = document.getElementById("more");
  const left = shownRuns.length - shownCount;
  more.hidden = left <= 0;
  more.textContent = `Show ${Math.min(left, MORE)} more of ${left.toLocaleString("en")}`;
  return rows[0];
}
