// Data embedded in the page: JSON, and number columns packed by reports/packing.py.

const readJson = (id) => JSON.parse(document.getElementById(id).textContent);

const ARRAYS = {
  u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, i32: Int32Array, f64: Float64Array,
};

async function inflate(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Undo the byte planes: byte b of row i is at b * rows + i.
async function unpack(packed) {
  const bytes = await inflate(packed.data);
  const columns = { rows: packed.rows };
  let at = 0;
  for (const [name, type] of packed.columns) {
    const size = ARRAYS[type].BYTES_PER_ELEMENT;
    const out = new Uint8Array(packed.rows * size);
    for (let b = 0; b < size; b++)
      for (let i = 0; i < packed.rows; i++) out[i * size + b] = bytes[at++];
    columns[name] = new ARRAYS[type](out.buffer);
  }
  return columns;
}

const NEVER = 0xffffffff;
const OK = 0, FAIL = 1, INFO = 2, OPEN = 3;

// Operations, ordered by start. Times are microseconds since the start of the test.
async function loadOperations(end) {
  const { rows, gap, latency, type, lane, f } = await unpack(readJson("run-plot"));
  const start = new Float64Array(rows);
  let now = 0, longest = 0;
  for (let i = 0; i < rows; i++) {
    now += gap[i];
    start[i] = now;
    longest = Math.max(longest, latency[i] === NEVER ? end - now : latency[i]);
  }
  return { rows, start, latency, type, lane, f, longest, end, details: null, loading: null,
    mask: null };
}

const hidden = (ops, i) => ops.mask !== null && !ops.mask[i]; // by the filter
const finish = (ops, i) => ops.latency[i] === NEVER ? ops.end : ops.start[i] + ops.latency[i];

// Process, node, values and errors: unpacked when a tooltip or a label first needs them.
function loadDetails(ops) {
  ops.loading ??= (async () => {
    const packed = readJson("run-details");
    const columns = await unpack(packed);
    columns.texts = JSON.parse(new TextDecoder().decode(await inflate(packed.texts)));
    ops.details = columns;
  })();
  return ops.loading;
}

// First position in sorted `array` whose value is at least `value`.
function lowerBound(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

// Rows that may overlap [from, to]; the caller still checks the end of each.
const candidates = (ops, from, to) =>
  [lowerBound(ops.start, from - ops.longest), lowerBound(ops.start, to)];

function describe(ops, i, names) {
  const words = [names[ops.f[i]]];
  const d = ops.details;
  if (d) {
    if (d.key[i]) words.push(d.texts[d.key[i]].replace(/^"|"$/g, ""));
    if (d.sent[i]) words.push(d.texts[d.sent[i]]);
    if (d.seen[i] && d.seen[i] !== d.sent[i]) words.push("→" + d.texts[d.seen[i]]);
  }
  return words.join(" ");
}
