// Drift of each node's wall clock against the test's clock since the node's first event.

const CLOCK_DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4]];

class ClockChart extends Chart {
  constructor(view, nodes) {
    super("clock-chart", 96, view);
    this.nodes = nodes;
    const most = Math.max(1000, ...nodes.flatMap((n) => n.ahead.map((a) => Math.abs(a[1]))));
    this.step = roundStep(most / 2);
    this.top = Math.ceil(most * 1.05 / this.step) * this.step;
  }

  y(us) { return 48 - us / this.top * 40; }

  draw(shared) {
    this.background(shared);
    for (let us = -this.top; us <= this.top; us += this.step) {
      this.context.fillStyle = us === 0 ? colours.muted : colours.line;
      this.context.fillRect(LEFT, Math.round(this.y(us)), this.plot, 1);
      if (us % (this.step * Math.ceil(this.top / this.step / 2)) === 0)
        this.name((us > 0 ? "+" : us < 0 ? "−" : "") + spanText(Math.abs(us)), this.y(us));
    }
    this.clipped((c) => {
      const labels = [];
      this.nodes.forEach((node, i) => {
        c.strokeStyle = epochColour(i);
        c.setLineDash(CLOCK_DASHES[i % CLOCK_DASHES.length]);
        c.lineWidth = 1.8;
        c.beginPath();
        let y = null;
        for (const [t, us] of node.ahead) {
          const x = Math.min(Math.max(this.x(t), LEFT - 2), LEFT + this.plot + 2);
          if (y === null) c.moveTo(x, this.y(us));
          else c.lineTo(x, this.y(us));
          y = this.y(us);
        }
        c.stroke();
        c.setLineDash([]);
        const at = this.at(node, this.view.to);
        if (at !== null && Math.abs(at) > this.top / 20) labels.push([node.node, this.y(at), i]);
      });
      c.font = "600 " + FONT;
      c.textBaseline = "middle";
      labels.sort((a, b) => a[1] - b[1]).forEach(([text, y, i], n) =>
        haloText(c, text, LEFT + this.plot - 30 - (n % 2) * 34, y - 7, 100, epochColour(i)));
    });
  }

  at(node, t) {
    const step = node.ahead.findLast((a) => a[0] <= t);
    return step ? step[1] : null;
  }

  hit(x) {
    const t = this.time(x);
    const rows = this.nodes.map((n) => [n.node, this.at(n, t)]).filter(([, us]) => us !== null)
      .map(([name, us]) => [name, (us < 0 ? "−" : "+") + spanText(Math.abs(us))]);
    return rows.length ? { title: `clocks at ${timeText(t)}`, rows } : null;
  }
}
