// Bars (or lines: store_lines.js) per day or night, for every system, workload and fault.
const MOST_BARS = 60;
const BAR = 9, HEIGHT = 34;
const SVG = "http://www.w3.org/2000/svg";
const GROUPS = {
  systems: { of: (run) => [run.system], key: "system" },
  workloads: { of: (run) => [`${run.system} · ${run.workload}`], key: "workload" },
  faults: { of: (run) => (run.faults.length ? [...new Set(run.faults)] : ["none"]), key: "fault" },
};

function bucketsOf(runs, per) {
  const names = new Set();
  for (const run of runs) if (run[per]) names.add(run[per]);
  return [...names].sort();
}

function emptyGroup(label) {
  return {
    label, counts: [0, 0, 0, 0], planted: 0, flakes: 0, times: [], service: [], latency: [], bars: new Map(),
  };
}

function collect(runs, per, of, group, groups) {
  for (const run of runs) {
    for (const label of of(run)) {
      let found = groups.get(label);
      if (!found) groups.set(label, (found = group(label)));
      const asPlanted = run.verdict === 1 && run.mutant !== "";
      found.counts[run.verdict] += 1;
      if (asPlanted) found.planted += 1;
      if (run.red === "flake") found.flakes += 1;
      let bar = found.bars.get(run[per]);
      if (!bar) found.bars.set(run[per], (bar = { counts: [0, 0, 0, 0], times: [], service: [], latency: [] }));
      found.example = run;
      if (run.seconds !== null) found.times.push(run.seconds);
      for (const [show, { of: value }] of Object.entries(LINES)) {
        if (value(run) === null) continue;
        found[show].push(value(run));
        bar[show].push(value(run));
      }
      bar.counts[asPlanted ? 3 : Math.min(run.verdict, 2)] += 1;
      if (run.seconds !== null) bar.times.push(run.seconds);
    }
  }
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function chart(group, buckets, per) {
  const most = Math.max(1, ...[...group.bars.values()].map((b) => b.counts.reduce((x, y) => x + y)));
  const width = Math.max(buckets.length * BAR, BAR);
  const invalid = group.counts[1] - group.planted, undecided = group.counts[2] + group.counts[3];
  const svg = shape("svg", {
    class: "bars", width, height: HEIGHT, role: "img",
    "aria-label": `${group.label}: ${invalid} invalid, ${group.planted} with a planted bug and ${undecided} undecided over ${buckets.length} ${per}s, at most ${most} runs each`,
  });
  svg.append(shape("line", { x1: 0, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5, class: "ground" }));
  buckets.forEach((name, i) => {
    const bar = group.bars.get(name);
    if (!bar) return;
    const [valid, bad, unsure, planted] = bar.counts;
    const column = shape("g", {});
    const title = shape("title", {});
    const time = median(bar.times);
    title.textContent = `${name}: ${valid} valid, ${bad} INVALID, ${planted} INVALID with a planted bug, ${unsure} undecided` +
      (time === null ? "" : `; median ${time.toFixed(1)} s`);
    column.append(title, shape("rect", { x: i * BAR, y: 0, width: BAR, height: HEIGHT, class: "hit" }));
    let base = HEIGHT - 1;
    for (const [count, css] of [[bad, "invalid"], [unsure, "unknown"], [planted, "planted"], [valid, "valid"]]) {
      if (!count) continue;
      const tall = Math.max((count / most) * (HEIGHT - 2), css === "valid" ? 1 : 3);
      const top = Math.max(base - tall, 0);
      column.append(shape("rect", { x: i * BAR + 1, y: top, width: BAR - 2, height: base - top, class: css }));
      base = top;
    }
    svg.append(column);
  });
  return svg;
}

function trendRow(group, picture, key, choose) {
  const row = element("tr");
  const value = key === "workload" ? group.example.workload : group.label;
  const pick = element("button", { type: "button", class: "link", text: group.label, title: `Only ${group.label}` });
  pick.addEventListener("click", () => {
    choose(key === "workload" ? { system: group.example.system, workload: value } : { [key]: value });
  });
  const time = median(group.times);
  const undecided = group.counts[2] + group.counts[3];
  const invalid = group.counts[1] - group.planted;
  const figure = (show) => {
    const value = LINES[show].sum(group[show]);
    return element("td", { class: "n", text: value === null ? "–" : LINES[show].text(value) });
  };
  row.append(
    element("th", { scope: "row" }, pick),
    element("td", {}, picture),
    element("td", { class: "n", text: group.counts.reduce((a, b) => a + b) }),
    element("td", { class: "n", text: group.counts[0] }),
    element("td", { class: invalid ? "n red" : "n", text: invalid }),
    element("td", { class: "n", text: group.planted }),
    element("td", { class: undecided ? "n amber" : "n", text: undecided }),
    element("td", { class: "n", text: group.flakes }),
    element("td", { class: "n", text: time === null ? "–" : `${time.toFixed(1)} s` }),
    figure("service"), figure("latency"),
  );
  return row;
}

function drawTrend(runs, state, choose) {
  const per = state.per === "night" ? "night" : "day";
  const show = Object.hasOwn(LINES, state.show) ? state.show : "";
  const all = bucketsOf(runs, per);
  const buckets = all.slice(-MOST_BARS);
  const tables = Object.entries(GROUPS).map(([id, { of, key }]) => {
    const groups = new Map();
    collect(runs, per, of, emptyGroup, groups);
    return { id, key, groups: [...groups.values()].sort((a, b) => (a.label < b.label ? -1 : 1)) };
  });
  const range = show && lineRange(tables.flatMap(({ groups }) => groups), buckets, show);
  for (const { id, key, groups } of tables) {
    const rows = groups.map((group) => trendRow(group,
      show ? lineChart(group, buckets, per, show, range) : chart(group, buckets, per), key, choose));
    const table = document.getElementById(`trend-${id}`);
    table.tBodies[0].replaceChildren(...rows);
    table.querySelector(".per").textContent = `${show ? LINES[show].title : "Runs"} per ${per}`;
  }
  const span = document.getElementById("span");
  if (!buckets.length) span.textContent = per === "night" ? "None of these runs is from a night." : "";
  else {
    const older = all.length - buckets.length;
    span.textContent = `${show ? scaleText(show, range) : ""}A ${show ? "point" : "bar"} per ${per}, from ${buckets[0]} to ${buckets[buckets.length - 1]}` +
      (older ? `; ${older} older ${per}s are not drawn.` : ".");
  }
  document.getElementById("legend").hidden = false;
  for (const key of document.querySelectorAll("#legend .key")) key.hidden = show !== "";
  for (const button of document.querySelectorAll("#show button")) {
    button.setAttribute("aria-pressed", String(button.dataset.show === show));
  }
}
