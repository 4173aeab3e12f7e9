// Steps through the legal orders of a window with the pointer, the keyboard, or the list below it.

class Orders {
  constructor(box) {
    this.figure = box.querySelector("figure");
    this.status = box.querySelector(".step");
    this.radios = [...box.querySelectorAll("input[type=radio]")];
    this.parts = [...box.querySelectorAll(".order")];
    this.bars = [...box.querySelectorAll("[data-span]")];
    this.orders = this.parts.filter((part) => part.matches(".words")).map((part) => ({
      spans: numbers(part.dataset.spans), refused: numbers(part.dataset.refused),
      steps: [...part.querySelectorAll("ol > li")], why: [...part.querySelectorAll(".blocked > li")],
    }));
    this.kept = 0; // the order shown while the pointer is elsewhere
    box.addEventListener("change", (event) => this.keep(Number(event.target.value)));
    this.figure.addEventListener("keydown", (event) => this.key(event));
    this.figure.addEventListener("pointerover", (event) => this.point(event.target));
    this.figure.addEventListener("pointerleave", () => this.show(this.kept));
    this.figure.addEventListener("blur", () => this.show(this.kept));
    this.orders.forEach((order, at) => order.steps.forEach((item, step) => {
      item.addEventListener("pointerenter", () => this.show(at, step + 1));
      item.addEventListener("pointerleave", () => this.show(this.kept));
    }));
    this.show(0);
  }

  // Shows an order until another one is chosen.
  keep(order) {
    this.kept = order;
    for (const radio of this.radios) radio.checked = Number(radio.value) === order;
    this.show(order);
  }

  // Orders are sorted by length, so the first that contains an operation is the longest.
  point(target) {
    const span = target.closest("[data-span]")?.dataset.span;
    if (span === undefined) return;
    const order = this.orders.findIndex((each) => each.spans.includes(Number(span)));
    if (order < 0) this.show(this.kept);
    else this.show(order, this.orders[order].spans.indexOf(Number(span)) + 1);
  }

  key(event) {
    const count = this.orders.length, length = this.orders[this.shown].spans.length;
    const steps = { ArrowRight: this.step % (length + 1) + 1, ArrowLeft: this.step - 1,
      Home: 1, End: length + 1 };
    if (event.key === "Escape") this.keep(0);
    else if (event.key === "ArrowDown") this.keep((this.kept + 1) % count);
    else if (event.key === "ArrowUp") this.keep((this.kept + count - 1) % count);
    else if (event.key in steps) this.show(this.shown, Math.max(steps[event.key], 1));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Shows the first `step` operations of an order; the step after the last one shows why it ends.
  show(order, step = this.orders[order].spans.length + 1) {
    const { spans, refused, steps, why } = this.orders[order], ends = step > spans.length;
    this.shown = order;
    this.step = step;
    for (const part of this.parts) {
      part.classList.toggle("shown", Number(part.dataset.order) === order);
      part.classList.toggle("midway", !ends);
      const line = part.querySelector("polyline");
      if (line) {
        line.dataset.all ??= line.getAttribute("points");
        line.setAttribute("points", line.dataset.all.split(" ").slice(0, step).join(" "));
      }
      [...part.querySelectorAll(".point")].forEach((point, at) => {
        point.classList.toggle("later", at >= step);
        point.classList.toggle("current", at === step - 1);
      });
    }
    for (const bar of this.bars) {
      const span = Number(bar.dataset.span), at = spans.indexOf(span);
      bar.classList.toggle("current", at === step - 1);
      bar.classList.toggle("later", at >= step);
      bar.classList.toggle("refused", ends && refused.includes(span));
    }
    steps.forEach((item, at) => item.classList.toggle("current", at === step - 1));
    this.status.textContent = ends
      ? `After ${spans.length} operations: ${why[0]?.textContent ?? "no operation is left."}`
      : `${step} of ${spans.length}: ${steps[step - 1].textContent}`;
  }
}

const numbers = (text) => text.split(" ").filter(Boolean).map(Number);

for (const box of document.querySelectorAll(".window"))
  if (box.querySelector(".step")) new Orders(box);
