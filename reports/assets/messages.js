// Messages as arrows between the nodes' lines, time to the right, and trace events as dots: a
// space-time diagram around anomalies. Zoomed out, only the number of messages is shown.

const MESSAGE_LANE = 38, MOST_ARROWS = 700, LABELLED = 70;
const EVENT_COLOURS = { elected: "mark", state: "text", grant: "partition", hw: "ok", commit: "ok",
  truncate: "fail", fatal: "fail", resign: "info", start: "text", stop: "text" };

async function loadMessages(packed) {
  return JSON.parse(new TextDecoder().decode(await inflate(packed)));
}

class MessageChart extends Chart {
  constructor(view, messages, nodes, anomalies) {
    super("messages-chart", nodes.length * MESSAGE_LANE + 14, view);
    Object.assign(this, { messages, nodes, anomalies });
    this.arrived = Float64Array.from(messages.arrows, (a) => a[1]);
    this.times = Float64Array.from(messages.events, (e) => e[0]);
    this.slowest = messages.arrows.reduce(
      (most, [sent, arrived]) => Math.max(most, sent < 0 ? 0 : arrived - sent), 0);
  }

  y(lane) { return 20 + lane * MESSAGE_LANE; }

  draw(shared) {
    this.background(shared);
    const { view, messages } = this;
    this.nodes.forEach((node, i) => {
      this.name(node.node, this.y(i), true);
      this.clipped((c) => {
        c.fillStyle = colours.muted;
        c.fillRect(LEFT, this.y(i), this.plot, 1);
        for (const [from, to] of node.down) {
          const x0 = Math.max(this.x(from), LEFT), x1 = Math.min(this.x(to), LEFT + this.plot);
          c.fillStyle = colours.panel;
          c.fillRect(x0, this.y(i) - 1, x1 - x0, 3);
        }
      });
    });
    this.first = lowerBound(this.arrived, view.from);
    this.last = lowerBound(this.arrived, view.to + this.slowest);
    const shown = this.last - this.first;
    const events = [lowerBound(this.times, view.from), lowerBound(this.times, view.to)];
    this.dense = shown > MOST_ARROWS;
    this.clipped((c) => {
      if (this.dense) { this.sketch(c); return; }
      c.font = MONO;
      c.textBaseline = "middle";
      for (let i = this.first; i < this.last; i++) this.arrow(c, messages.arrows[i]);
      for (let i = events[0]; i < events[1]; i++) this.dot(c, messages.events[i]);
      if (shown <= LABELLED)
        for (let i = this.first; i < this.last; i++) this.label(c, messages.arrows[i]);
      if (events[1] - events[0] <= LABELLED) {
        const ends = new Map(); // keeps names from overlapping
        for (let i = events[0]; i < events[1]; i++) {
          const [at, lane, kind] = messages.events[i], x = this.x(at) + 4;
          const text = messages.texts[kind];
          if (x < (ends.get(lane) ?? 0)) continue;
          haloText(c, text, x, this.y(lane) - 9, 120);
          ends.set(lane, x + c.measureText(text).width + 6);
        }
      }
      this.proof(c, shared.selected);
    });
  }

  // Rings around the evidence of the selected anomaly.
  proof(c, selected) {
    for (const [name, at] of this.anomalies[selected]?.events ?? []) {
      const lane = this.nodes.findIndex((n) => n.node === name);
      if (lane < 0) continue;
      c.strokeStyle = colours.mark;
      c.lineWidth = 2.5;
      c.beginPath();
      c.arc(this.x(at), this.y(lane), 7, 0, 7);
      c.stroke();
    }
  }

  // Too many to distinguish: ticks where they arrived.
  sketch(c) {
    c.fillStyle = colours.accent;
    c.globalAlpha = 0.35;
    for (let i = this.first; i < this.last; i++) {
      const arrow = this.messages.arrows[i];
      c.fillRect(this.x(arrow[1]), this.y(arrow[3]) - 5, 1, 10);
    }
    c.globalAlpha = 1;
    c.font = "600 " + FONT;
    c.textBaseline = "middle";
    haloText(c, `${(this.last - this.first).toLocaleString("en")} messages: zoom in to see them`,
      LEFT + 8, this.height / 2);
  }

  ends([sent, arrived, from, to]) {
    return [this.x(sent < 0 ? arrived : sent), this.y(from), this.x(arrived), this.y(to)];
  }

  arrow(c, row) {
    const [x0, y0, x1, y1] = this.ends(row), api = this.messages.texts[row[4]];
    if (x1 < LEFT && x0 < LEFT) return;
    c.strokeStyle = c.fillStyle = colours[this.messages.colours[api]] ?? colours["other-fault"];
    c.lineWidth = 1.2;
    c.setLineDash(row[0] < 0 ? [2, 2] : api.endsWith("answer") ? [5, 2] : []);
    c.beginPath();
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
    c.stroke();
    c.setLineDash([]);
    const angle = Math.atan2(y1 - y0, x1 - x0);
    c.beginPath();
    c.moveTo(x1, y1);
    for (const side of [2.75, -2.75])
      c.lineTo(x1 + 8 * Math.cos(angle + side), y1 + 8 * Math.sin(angle + side));
    c.fill();
  }

  dot(c, [at, lane, kind]) {
    const colour = colours[EVENT_COLOURS[this.messages.texts[kind]]] ?? colours.muted;
    c.fillStyle = colour;
    c.beginPath();
    c.arc(this.x(at), this.y(lane), 3.2, 0, 7);
    c.fill();
  }

  label(c, row) {
    const [x0, y0, x1, y1] = this.ends(row);
    const part = 0.42 + 0.16 * ((row[2] + row[3]) % 3 - 1); // neighbouring labels at different heights
    haloText(c, this.messages.texts[row[5]], x0 + (x1 - x0) * part + 4, y0 + (y1 - y0) * part, 150);
  }

  hit(x, y) {
    if (this.dense) return null;
    const { messages } = this, t = this.time(x), slack = 6 / this.plot * this.view.span;
    let best = null, distance = 49;
    for (let i = this.first; i < this.last; i++) {
      const [x0, y0, x1, y1] = this.ends(messages.arrows[i]);
      const dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy || 1;
      const part = Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / length));
      const away = (x - x0 - part * dx) ** 2 + (y - y0 - part * dy) ** 2;
      if (away < distance) { distance = away; best = messages.arrows[i]; }
    }
    const lane = Math.round((y - 20) / MESSAGE_LANE);
    if (Math.abs(y - this.y(lane)) < 7) {
      const found = [];
      for (let i = lowerBound(this.times, t - slack); i < lowerBound(this.times, t + slack); i++)
        if (messages.events[i][1] === lane) found.push(messages.events[i]);
      if (found.length)
        return { title: `Trace of ${this.nodes[lane].node}`, rows: found.slice(0, 6).map(
          ([at, , kind, detail]) => [messages.texts[kind], `${timeText(at, 1)}: ${messages.texts[detail]}`]) };
    }
    if (!best) return null;
    const [sent, arrived, from, to, api, label, contents] = best;
    return { title: `${messages.texts[api]} · ${this.nodes[from].node} → ${this.nodes[to].node}`,
      rows: [["summary", messages.texts[label]],
        ["sent", sent < 0 ? "not recorded" : timeText(sent, 1)],
        [messages.texts[api].endsWith("answer") ? "arrived" : "handled", timeText(arrived, 1)],
        ["contents", messages.texts[contents]]] };
  }
}
