// Describes the item under the pointer, and draws a line through all charts at that time.

class Pointer {
  constructor(charts) {
    this.charts = charts;
    this.area = document.getElementById("charts");
    this.box = document.getElementById("tooltip");
    this.overlay = document.getElementById("overlay");
  }

  resize(width) {
    const ratio = window.devicePixelRatio || 1, height = this.area.clientHeight;
    this.overlay.width = Math.round(width * ratio);
    this.overlay.height = Math.round(height * ratio);
    this.overlay.style.width = width + "px";
    this.overlay.style.height = height + "px";
    this.context = this.overlay.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  // Return {chart, x, y, hit} for a position inside the charts' area.
  at(x, y) {
    for (const chart of this.charts) {
      const top = chart.canvas.offsetTop;
      if (y < top || y >= top + chart.height || x < LEFT || x > LEFT + chart.plot) continue;
      return { chart, hit: chart.hit(x, y - top) };
    }
    return { chart: this.charts[0], hit: null };
  }

  show(x, y, selection) {
    const found = this.at(x, y);
    const c = this.context;
    this.overlay.hidden = false;
    c.clearRect(0, 0, this.overlay.width, this.overlay.height);
    if (x >= LEFT && x <= LEFT + this.charts[0].plot) {
      c.fillStyle = colours.muted;
      c.fillRect(Math.round(x), 8, 1, this.area.clientHeight - 16);
      if (selection !== null) {
        c.globalAlpha = 0.15;
        c.fillStyle = colours.accent;
        c.fillRect(Math.min(x, selection), 8, Math.abs(x - selection), this.area.clientHeight - 16);
        c.globalAlpha = 1;
      }
    }
    this.area.classList.toggle("pointing", this.target(found.hit));
    this.fill(found.hit, x, y);
    return found.hit;
  }

  target(hit) { return Boolean(hit) && (hit.anomaly >= 0 || hit.fault >= 0); }

  hide() {
    this.box.hidden = true;
    this.overlay.hidden = true; // one layer less to compose
    this.context.clearRect(0, 0, this.overlay.width, this.overlay.height);
  }

  fill(hit, x, y) {
    this.box.hidden = !hit;
    if (!hit) return;
    const title = document.createElement("b");
    title.textContent = hit.title;
    const list = document.createElement("dl");
    for (const [name, value] of hit.rows) {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name;
      text.textContent = value;
      list.append(term, text);
    }
    this.box.replaceChildren(title, list);
    const width = this.box.offsetWidth, height = this.box.offsetHeight;
    const left = x + 16 + width > this.area.clientWidth ? x - width - 12 : x + 16;
    this.box.style.left = Math.max(left, 4) + "px";
    this.box.style.top = Math.min(y + 14, this.area.clientHeight - height - 4) + "px";
  }
}
