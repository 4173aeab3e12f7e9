// The top chart: the position in the run, the time axis, anomaly marks and fault bars.

const AXIS = 40, FAULT_ROW = 18;

// Faults that overlap in time go to separate rows; each kind starts a new row.
function faultRows(faults, end) {
  const rows = [];
  const row = new Map();
  for (const kind of [...new Set(faults.map((f) => f.kind))]) {
    const mine = [];
    faults.forEach((fault, i) => {
      if (fault.kind !== kind) return;
      let r = mine.find((candidate) => candidate.until <= fault.start);
      if (!r) {
        r = { kind, until: 0, number: rows.length };
        mine.push(r);
        rows.push(r);
      }
      r.until = fault.end ?? end;
      row.set(i, r.number);
    });
  }
  return { rows, row };
}

class FaultChart extends Chart {
  constructor(view, faults, anomalies) {
    const layout = faultRows(faults, view.end);
    super("faults-chart", AXIS + layout.rows.length * FAULT_ROW + 4, view);
    Object.assign(this, layout, { faults, anomalies });
  }

  draw(shared) {
    const c = this.context;
    this.background(shared);
    // The whole run as a bar; the visible part is filled.
    c.fillStyle = colours.line;
    c.fillRect(LEFT, 3, this.plot, 4);
    const scale = this.plot / this.view.end;
    c.fillStyle = colours.accent;
    c.fillRect(LEFT + this.view.from * scale, 3, Math.max(this.view.span * scale, 3), 4);
    c.font = FONT;
    c.textBaseline = "middle";
    c.textAlign = "center";
    for (const t of shared.ticks) {
      const x = Math.min(Math.max(this.x(t), LEFT + 14), LEFT + this.plot - 22);
      haloText(c, timeText(t, shared.step), x, 17, 200, colours.muted);
    }
    c.textAlign = "left";
    this.rows.forEach((row, i) => {
      if (!i || this.rows[i - 1].kind !== row.kind)
        this.name(row.kind, AXIS + i * FAULT_ROW + FAULT_ROW / 2);
    });
    this.clipped(() => {
      this.faults.forEach((fault, i) => this.bar(fault, this.row.get(i)));
      this.anomalies.forEach((a, i) => {
        if (a.start === null) return;
        const x = this.x((a.start + a.end) / 2);
        const chosen = i === shared.selected;
        c.fillStyle = colours.mark;
        if (chosen) {
          c.globalAlpha = 0.5;
          c.fillRect(this.x(a.start), 30, Math.max(this.x(a.end) - this.x(a.start), 2), 3);
          c.globalAlpha = 1;
        }
        c.beginPath();
        c.moveTo(x, 38);
        c.lineTo(x - (chosen ? 7 : 5), 27);
        c.lineTo(x + (chosen ? 7 : 5), 27);
        c.fill();
      });
    });
    if (this.anomalies.length) this.name("anomalies", 32);
  }

  bar(fault, row) {
    const c = this.context;
    const x0 = this.x(fault.start), x1 = this.x(fault.end ?? this.view.end);
    if (x1 < LEFT || x0 > LEFT + this.plot) return;
    const y = AXIS + row * FAULT_ROW + 1, h = FAULT_ROW - 3;
    const colour = faultColour(fault.kind);
    c.globalAlpha = 0.3;
    c.fillStyle = colour;
    c.fillRect(x0, y, Math.max(x1 - x0, 2), h);
    c.globalAlpha = 1;
    c.fillRect(x0, y, 2, h);
    if (fault.end === null) hatch(c, x0, y, x1 - x0, h, colour, 6);
    c.font = FONT;
    c.textBaseline = "middle";
    const left = Math.max(x0, LEFT) + 5;
    const room = x1 - left - 2;
    const text = faultText(fault), short = fault.targets.join(" ");
    const shown = c.measureText(text).width <= room || !short ? text : short;
    haloText(c, shown, left, y + h / 2 + 0.5, room);
  }

  hit(x, y) {
    if (y < AXIS) {
      const i = this.anomalies.findIndex((a) =>
        a.start !== null && y > 24 && Math.abs(this.x((a.start + a.end) / 2) - x) < 7);
      if (i < 0) return null;
      const a = this.anomalies[i];
      return { title: `anomaly ${i + 1}: ${a.type}`, rows: [["", a.explanation]], anomaly: i };
    }
    const row = Math.floor((y - AXIS) / FAULT_ROW);
    const t = this.time(x), slack = 3 / this.plot * this.view.span;
    const i = this.faults.findIndex((f, n) => this.row.get(n) === row &&
      t >= f.start - slack && t <= (f.end ?? this.view.end) + slack);
    if (i < 0) return null;
    const f = this.faults[i];
    const rows = [["targets", f.targets.join(", ") || "none"], ["from", timeText(f.start)],
      ["to", f.end === null ? "never healed" : timeText(f.end)]];
    if (f.end !== null) rows.push(["lasted", spanText(f.end - f.start)]);
    if (f.error) rows.push(["error", f.error]);
    return { title: `fault ${f.id}: ${f.kind}, ${f.shape}`, rows, fault: i };
  }
}

const faultText = (fault) => [fault.shape, fault.targets.join(" ")].filter(Boolean).join(" · ");
