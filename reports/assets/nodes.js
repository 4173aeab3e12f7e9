// One lane per node: role (height and label), epoch (colour), down or paused (hatched), log end
// offset (dashed) and high watermark (line).

const NODE_LANE = 34;
const SHORT = { leader: "leader", follower: "follower", candidate: "candidate",
  prospective: "prospective", unattached: "unattached", resigned: "resigned",
  observer: "observer" };

class NodeChart extends Chart {
  constructor(view, nodes, anomalies) {
    super("nodes-chart", Math.max(nodes.length, 1) * NODE_LANE + 4, view);
    this.nodes = nodes;
    this.anomalies = anomalies;
  }

  draw(shared) {
    this.background(shared);
    this.rescale();
    this.nodes.forEach((node, i) => {
      const y = i * NODE_LANE + 2;
      this.name(node.node, y + NODE_LANE / 2, true);
      this.clipped((c) => {
        const labels = this.segments(c, node, y);
        this.steps(c, node.leo, y, [2, 2]);
        this.steps(c, node.hw, y, []);
        for (const [a, b] of node.down) this.absent(c, a, b, y, "down", true);
        for (const [a, b] of node.paused) this.absent(c, a, b, y, this.hasRoom(node, a, b) ? "paused" : "", false);
        for (const write of labels) write();
        c.fillStyle = colours.line;
        c.fillRect(LEFT, y + NODE_LANE - 1, this.plot, 1);
      });
    });
    if (shared.selected >= 0) this.proof(shared.selected);
  }

  // Paint the states; return a function that writes their labels on top of everything.
  segments(c, node, y) {
    const h = NODE_LANE - 6, labels = [];
    c.font = FONT;
    c.textBaseline = "middle";
    for (const [from, to, state, epoch, leader] of node.segments) {
      const x0 = Math.max(this.x(from), LEFT), x1 = Math.min(this.x(to), LEFT + this.plot);
      if (x1 < LEFT || x0 > LEFT + this.plot) continue;
      const w = Math.max(x1 - x0, 1), colour = epochColour(epoch);
      c.fillStyle = c.strokeStyle = colour;
      let label = `e${epoch}`;
      if (state === "leader" || state === "resigned") {
        c.fillRect(x0, y + 2, w, h);
        if (state === "resigned") hatch(c, x0, y + 2, w, h, colours.panel);
        label = `${state} e${epoch}`;
      } else if (state === "follower" || state === "observer") {
        c.globalAlpha = state === "follower" ? 0.42 : 0.22;
        c.fillRect(x0, y + h / 2 + 2, w, h / 2);
        c.globalAlpha = 1;
        c.fillRect(x0, y + h / 2 + 2, 1, h / 2);
        label = leader > 0 ? `e${epoch} → ${this.nodes[leader - 1]?.node ?? leader}` : `e${epoch}`;
        if (state === "observer") label = "observer " + label;
      } else {
        c.setLineDash(state === "candidate" ? [] : state === "prospective" ? [3, 2] : [1, 3]);
        c.lineWidth = 1.5;
        c.strokeRect(x0 + 0.75, y + 2.75, Math.max(w - 1.5, 0.5), h - 1.5);
        c.setLineDash([]);
        label = `${SHORT[state] ?? state} e${epoch}`;
      }
      const low = state === "follower" || state === "observer";
      const room = w - 8, line = y + 2 + (low ? h * 0.75 : h / 2);
      if (state === "leader") {
        if (room > c.measureText(label).width) {
          labels.push(() => {
            c.fillStyle = colours["epoch-text"];
            c.font = "600 " + FONT;
            c.fillText(label, x0 + 4, line, room);
            c.font = FONT;
          });
        }
      } else if (room > 16) labels.push(() => haloText(c, label, x0 + 4, line, room));
    }
    return labels;
  }

  // Only followers and observers leave the upper half of the lane free.
  hasRoom(node, from, to) {
    return this.x(to) - this.x(from) >= 110 || node.segments.every(([a, b, state]) =>
      b <= from || a >= to || state === "follower" || state === "observer");
  }

  absent(c, from, to, y, word, down) {
    const x0 = Math.max(this.x(from), LEFT), x1 = Math.min(this.x(to), LEFT + this.plot);
    if (x1 < LEFT || x0 > LEFT + this.plot) return;
    const w = Math.max(x1 - x0, 1.5), h = NODE_LANE - 6;
    c.fillStyle = colours.panel;
    c.globalAlpha = down ? 0.9 : 0.45;
    c.fillRect(x0, y + 2, w, h);
    c.globalAlpha = 1;
    hatch(c, x0, y + 2, w, h, down ? colours.down : colours.pause, down ? 4 : 7, down);
    c.font = "600 " + FONT;
    // The state is written at the left of a pause, so the word goes to the right.
    const left = down || w < 110 ? x0 + 4 : x1 - 54;
    haloText(c, word, left, y + 2 + h * (down ? 0.5 : 0.27), x1 - left - 2);
    c.font = FONT;
  }

  // All lanes share one scale: from the least to the greatest offset in view.
  rescale() {
    let low = Infinity, high = 0;
    const before = (steps, t) => steps.findLast((step) => step[0] <= t)?.[1];
    for (const { hw, leo } of this.nodes) {
      low = Math.min(low, before(hw, this.view.from) ?? 0);
      high = Math.max(high, before(leo, this.view.to) ?? 0, before(hw, this.view.to) ?? 0);
    }
    this.low = Math.min(low, high);
    this.high = Math.max(high, this.low + 1);
  }

  steps(c, steps, y, dash) {
    const scale = (NODE_LANE - 10) / (this.high - this.low);
    const height = (offset) => y + NODE_LANE - 5 - Math.max(offset - this.low, 0) * scale;
    c.strokeStyle = colours.text;
    c.lineWidth = 1;
    c.setLineDash(dash);
    c.globalAlpha = 0.75;
    c.beginPath();
    let last = null;
    for (const [t, offset] of steps) {
      const x = Math.min(Math.max(this.x(t), LEFT - 2), LEFT + this.plot + 2);
      if (last === null) c.moveTo(x, height(offset));
      else { c.lineTo(x, last); c.lineTo(x, height(offset)); }
      last = height(offset);
    }
    if (last !== null) c.lineTo(Math.min(this.x(this.view.end), LEFT + this.plot), last);
    c.stroke();
    c.setLineDash([]);
    c.globalAlpha = 1;
  }

  // Triangles at the trace events that prove the selected anomaly.
  proof(selected) {
    this.clipped((c) => {
      for (const [name, at] of this.anomalies[selected].events) {
        const i = this.nodes.findIndex((n) => n.node === name);
        if (i < 0) continue;
        const x = this.x(at), y = i * NODE_LANE + 2;
        c.strokeStyle = c.fillStyle = colours.mark;
        c.lineWidth = 2;
        c.beginPath();
        c.moveTo(x, y);
        c.lineTo(x, y + NODE_LANE - 2);
        c.stroke();
        c.beginPath();
        c.arc(x, y + 4, 4, 0, 7);
        c.fill();
      }
    });
  }

  hit(x, y) {
    const node = this.nodes[Math.floor((y - 2) / NODE_LANE)];
    if (!node) return null;
    const t = this.time(x), inside = ([a, b]) => t >= a && t <= b;
    const rows = [];
    const s = node.segments.findLast(inside);
    const down = node.down.find(inside), paused = node.paused.find(inside);
    if (down) rows.push(["down", `${timeText(down[0])} to ${timeText(down[1])}`]);
    else if (s) {
      rows.push(["state", s[2]], ["epoch", s[3]],
        ["leader", s[4] > 0 ? this.nodes[s[4] - 1]?.node ?? s[4] : "unknown"],
        ["incarnation", s[5]], ["from", timeText(s[0])], ["to", timeText(s[1])]);
    }
    if (paused) rows.push(["paused", `${timeText(paused[0])} to ${timeText(paused[1])}`]);
    for (const [name, steps] of [["log end offset", node.leo], ["high watermark", node.hw]]) {
      const step = steps.findLast((h) => h[0] <= t);
      if (step) rows.push([name, step[1]]);
    }
    return rows.length ? { title: node.node, rows: [["time", timeText(t)], ...rows] } : null;
  }
}
