// Which operations are shown, by result, by f, and by a text in key, value, node, error.

const everything = () => ({ types: [true, true, true, true], f: "", text: "" });

// Return a mask with 1 for each operation that is shown, or null when all are.
function maskOf(ops, filter) {
  const { types, f, text } = filter;
  if (types.every(Boolean) && f === "" && text === "") return null;
  const mask = new Uint8Array(ops.rows);
  const d = ops.details, wanted = text.toLowerCase();
  const matches = wanted && d ? Uint8Array.from(d.texts, (t) => t.toLowerCase().includes(wanted)) : null;
  for (let i = 0; i < ops.rows; i++) {
    if (!types[ops.type[i]] || (f !== "" && ops.f[i] !== Number(f))) continue;
    if (matches && !(matches[d.key[i]] || matches[d.sent[i]] || matches[d.seen[i]] ||
        matches[d.node[i]] || matches[d.error[i]])) continue;
    mask[i] = 1;
  }
  return mask;
}

// Connect the controls to the charts: `changed` is called when the mask changes.
function filterControls(ops, changed) {
  const filter = everything();
  const area = document.getElementById("filter");
  const apply = async () => {
    for (const box of area.querySelectorAll("input[type=checkbox]")) {
      filter.types[box.value] = box.checked;
      if (Number(box.value) === INFO) filter.types[OPEN] = box.checked;
    }
    filter.f = area.querySelector("select").value;
    filter.text = area.querySelector("input[type=search]").value.trim();
    if (filter.text) await loadDetails(ops);
    ops.mask = maskOf(ops, filter);
    const shown = ops.mask ? ops.mask.reduce((sum, one) => sum + one, 0) : ops.rows;
    area.querySelector("output").textContent = ops.mask
      ? `${shown.toLocaleString("en")} of ${ops.rows.toLocaleString("en")} operations` : "";
    changed();
  };
  let waiting = 0;
  area.addEventListener("input", () => { // typing a word is one change
    clearTimeout(waiting);
    waiting = setTimeout(apply, 120);
  });
}
