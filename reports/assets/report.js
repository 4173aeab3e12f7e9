// Connects the charts, the pointer, the keyboard, the anomalies and the address.

const PAUSE_AFTER_SCROLL = 250; // ms: a wheel that scrolls the page does not zoom half-way

async function start() {
  const data = readJson("run-data");
  const area = document.getElementById("charts");
  if (!area) return; // a history without times
  readColours();
  const ops = await loadOperations(data.end);
  const shared = { faults: data.faults, ticks: [], step: 1, selected: -1 };
  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; paint(); });
  };
  const view = new View(data.end, redraw);
  const charts = [
    new FaultChart(view, data.faults, data.anomalies),
    ...(document.getElementById("nodes-chart")
      ? [new NodeChart(view, data.nodes, data.anomalies)] : []),
    ...(document.getElementById("messages-chart")
      ? [new MessageChart(view, await loadMessages(data.messages), data.nodes,
        data.anomalies)] : []),
    new OperationChart(view, ops, data, redraw),
    new LatencyChart(view, ops, data, redraw),
    new RateChart(view, data.seconds),
    ...(document.getElementById("clock-chart") ? [new ClockChart(view, data.nodes)] : []),
  ];
  filterControls(ops, () => {
    for (const chart of charts) chart.forget?.();
    redraw();
  });
  const pointer = new Pointer(charts);
  let last = null; // position of the pointer: {x, y}

  function paint() {
    const began = performance.now();
    shared.step = roundStep(view.span / Math.max(charts[0].plot / 110, 1));
    shared.ticks = [];
    for (let t = Math.ceil(view.from / shared.step) * shared.step; t <= view.to; t += shared.step)
      shared.ticks.push(t);
    for (const chart of charts) chart.draw(shared);
    if (last && !pointer.box.hidden) pointer.show(last.x, last.y, null);
    area.dataset.from = Math.round(view.from);
    area.dataset.to = Math.round(view.to);
    area.dataset.frame = (performance.now() - began).toFixed(1);
    document.getElementById("range").textContent =
      `${timeText(view.from, view.span / 1000)} to ${timeText(view.to, view.span / 1000)}` +
      (view.whole ? " (whole run)" : ` (${spanText(view.span)})`);
    remember();
  }

  function resize() {
    const width = area.clientWidth;
    for (const chart of charts) chart.resize(width);
    pointer.resize(width);
    paint();
  }

  // The view is kept in the address: #t=1.5-3.25&anomaly=2
  let later = 0;
  function remember() {
    clearTimeout(later);
    later = setTimeout(() => {
      const parts = [];
      if (!view.whole) parts.push(`t=${(view.from / 1e6).toFixed(6)}-${(view.to / 1e6).toFixed(6)}`);
      if (shared.selected >= 0) parts.push(`anomaly=${shared.selected + 1}`);
      const wanted = parts.length ? "#" + parts.join("&") : "#";
      if (parts.length || /^#(t|anomaly)=/.test(location.hash)) history.replaceState(null, "", wanted);
    }, 300);
  }

  function recall() {
    const address = new URLSearchParams(location.hash.slice(1));
    const anomaly = Number(address.get("anomaly")) - 1;
    if (anomaly >= 0 && anomaly < data.anomalies.length) select(anomaly, false);
    const range = /^([\d.]+)-([\d.]+)$/.exec(address.get("t") ?? "");
    if (range) view.show(range[1] * 1e6, range[2] * 1e6);
  }

  // Anomalies ------------------------------------------------------------------------------
  function select(i, jump = true) {
    const a = data.anomalies[i], caption = document.getElementById("caption");
    document.querySelectorAll(".anomaly.selected").forEach((e) => e.classList.remove("selected"));
    shared.selected = a ? i : -1;
    caption.hidden = !a;
    if (!a) { redraw(); return; }
    caption.textContent =
      `Anomaly ${i + 1} of ${data.anomalies.length}, ${a.type} (${a.checker}): ${a.explanation}`;
    const entry = document.getElementById(`anomaly-${i + 1}`);
    entry.classList.add("selected");
    for (let e = entry; e; e = e.parentElement.closest("details")) e.open = true;
    if (a.start !== null) {
      const margin = Math.max((a.end - a.start) * 0.12, a.rows.length ? 20000 : nearby(a.start));
      view.show(a.start - margin, a.end + margin);
    }
    if (jump) document.getElementById("timeline").scrollIntoView({ block: "start" });
    redraw();
  }

  // Enough time around a moment to show some dozens of messages.
  function nearby(moment) {
    const messages = charts.find((chart) => chart instanceof MessageChart);
    if (!messages) return 300000;
    const at = lowerBound(messages.arrived, moment);
    const away = [...messages.arrived.slice(Math.max(at - 25, 0), at + 25)]
      .map((t) => Math.abs(t - moment)).sort((x, y) => x - y);
    return Math.min(Math.max((away[24] ?? Infinity) * 1.2, 5000), 300000);
  }

  function step(by) {
    const n = data.anomalies.length;
    if (n) select(shared.selected < 0 ? (by > 0 ? 0 : n - 1) : (shared.selected + by + n) % n);
  }

  function showFault(i) {
    const f = data.faults[i], end = f.end ?? view.end;
    const margin = Math.max((end - f.start) * 0.25, 100000);
    view.show(f.start - margin, end + margin);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.row !== undefined) {
      select(Number(button.dataset.anomaly));
      const row = Number(button.dataset.row), length = Math.max(finish(ops, row) - ops.start[row], 2000);
      view.show(ops.start[row] - length * 3, ops.start[row] + length * 4);
    } else if (button.dataset.anomaly !== undefined) {
      event.preventDefault();
      select(Number(button.dataset.anomaly));
    } else if (button.dataset.fault !== undefined) {
      showFault(Number(button.dataset.fault));
      document.getElementById("timeline").scrollIntoView({ block: "start" });
    } else if (button.dataset.key) press(button.dataset.key);
  });

  // Keyboard -------------------------------------------------------------------------------
  function press(key) {
    switch (key) {
      case "+": case "=": view.zoom(0.5); break;
      case "-": case "_": view.zoom(2); break;
      case "ArrowLeft": view.pan(-view.span * 0.2); break;
      case "ArrowRight": view.pan(view.span * 0.2); break;
      case "0": view.reset(); break;
      case "j": step(1); break;
      case "k": step(-1); break;
      case "Escape": select(-1); pointer.hide(); break;
      default: return false;
    }
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (press(event.key)) event.preventDefault();
  });

  // Wheel and pointer ----------------------------------------------------------------------
  const place = (event) => {
    const box = area.getBoundingClientRect();
    return { x: event.clientX - box.left - area.clientLeft, y: event.clientY - box.top - area.clientTop };
  };
  const timeAt = (x) => charts[0].time(Math.min(Math.max(x, LEFT), LEFT + charts[0].plot));

  let scrolled = -Infinity;
  window.addEventListener("scroll", () => { scrolled = performance.now(); }, { passive: true });
  area.addEventListener("wheel", (event) => {
    if (event.ctrlKey || performance.now() - scrolled < PAUSE_AFTER_SCROLL) return;
    const lines = event.deltaMode === 1 ? 16 : 1;
    const sideways = (event.shiftKey ? event.deltaY : event.deltaX) * lines;
    if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY * lines)) {
      view.pan(sideways / charts[0].plot * view.span);
    } else {
      if (event.deltaY > 0 && view.whole) return; // nothing to zoom out of: scroll the page
      view.zoom(Math.exp(Math.max(-300, Math.min(300, event.deltaY * lines)) * 0.0022),
        timeAt(place(event).x));
    }
    event.preventDefault();
  }, { passive: false });

  let drag = null; // {x, from, to, moved, selecting}
  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const { x } = place(event);
    drag = { x, from: view.from, to: view.to, moved: false, selecting: event.shiftKey };
    area.setPointerCapture(event.pointerId);
  });
  area.addEventListener("pointermove", (event) => {
    last = place(event);
    if (drag && Math.abs(last.x - drag.x) > 3) drag.moved = true;
    if (drag?.moved && !drag.selecting) {
      area.classList.add("dragging");
      const time = (drag.x - last.x) / charts[0].plot * (drag.to - drag.from);
      view.show(drag.from + time, drag.to + time);
    }
    pointer.show(last.x, last.y, drag?.moved && drag.selecting ? drag.x : null);
  });
  area.addEventListener("pointerup", (event) => {
    const was = drag, { x, y } = place(event);
    drag = null;
    area.classList.remove("dragging");
    if (!was) return;
    if (was.moved && was.selecting) {
      const [a, b] = [timeAt(was.x), timeAt(x)];
      view.show(Math.min(a, b), Math.max(a, b));
    } else if (!was.moved) {
      const { hit } = pointer.at(x, y);
      if (hit?.fault >= 0) showFault(hit.fault);
      else if (hit?.anomaly >= 0) select(hit.anomaly, false);
    }
  });
  area.addEventListener("pointercancel", () => { drag = null; });
  area.addEventListener("pointerleave", () => { last = null; pointer.hide(); });
  area.addEventListener("dblclick", (event) => view.zoom(0.25, timeAt(place(event).x)));

  // Colours, size, print -------------------------------------------------------------------
  const recolour = () => { readColours(); resize(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  matchMedia("print").addEventListener("change", recolour);
  new ResizeObserver(() => {
    if (charts[0].width !== area.clientWidth) resize();
  }).observe(area);
  resize();
  recall();
  area.dataset.ready = "true";
  area.dataset.loaded = performance.now().toFixed(0);
}

document.getElementById("copy").addEventListener("click", async (event) => {
  const text = document.getElementById("repeat").textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page opened from a file may not use the clipboard directly
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  event.target.textContent = "Copied";
  setTimeout(() => { event.target.textContent = "Copy"; }, 1500);
});

start().catch((error) => {
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = `The charts cannot be drawn: ${error.message}`;
  document.getElementById("timeline").append(note);
  console.error(error);
});
