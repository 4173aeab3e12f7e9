// The time range that all charts share, and the formatting of times.

const SHORTEST = 20; // microseconds

class View {
  constructor(end, changed) {
    this.end = end;
    this.changed = changed;
    this.from = 0;
    this.to = end;
  }

  get span() { return this.to - this.from; }
  get whole() { return this.from <= 0 && this.to >= this.end; }

  // Show [from, to], kept inside the run and not shorter than SHORTEST.
  show(from, to) {
    let span = Math.min(Math.max(to - from, SHORTEST), this.end);
    let left = from + (to - from - span) / 2;
    left = Math.min(Math.max(left, 0), this.end - span);
    if (left === this.from && left + span === this.to) return;
    this.from = left;
    this.to = left + span;
    this.changed();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  pan(time) { this.show(this.from + time, this.to + time); }
  reset() { this.show(0, this.end); }
}

// A round step of 1, 2 or 5 times a power of ten, at least `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const m of [1, 2, 5, 10]) if (m * power >= least) return m * power;
  return 10 * power;
}

// A point in time, as exact as a step of the axis needs.
function timeText(t, step = 1000) {
  const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / 1e6) + 1e-9)));
  return (t / 1e6).toFixed(digits) + " s";
}

function spanText(us) {
  if (us < 1000) return Math.round(us) + " µs";
  if (us < 1e6) return +(us / 1000).toPrecision(3) + " ms";
  return +(us / 1e6).toPrecision(us < 1e9 ? 3 : 6) + " s";
}
