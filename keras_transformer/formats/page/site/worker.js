// Runs the engine, whose script follows this one. The page sends the engine's files first, then one
// sentence at a time; every message has one answer.

let translate = null;

self.onmessage = async ({ data }) => {
  try {
    if (translate) return postMessage({ html: translate(data) });
    translate = await load(data);
    postMessage({});
  } catch (error) {
    postMessage({ fault: String(error) });
  }
};

var Module = { print() {}, printErr() {} };
const starting = new Promise((resolve) => {
  Module.instantiateWasm = (imports, accept) => {
    resolve({ imports, accept });
    return {};
  };
});

/** Starts the engine. Returns a function that translates a sentence, as HTML. */
async function load({ wasm, model, shortlist, vocabularies, config }) {
  const { imports, accept } = await starting;
  const compiled = await WebAssembly.compile(wasm);
  imports.wasm_gemm = {};
  for (const { module, name } of WebAssembly.Module.imports(compiled)) {
    if (module !== "wasm_gemm") continue;
    // The engine also exports the matrix products that it imports, under other names.
    const own = `${name.replace(/_(.)/g, (_, letter) => letter.toUpperCase())}Fallback`;
    imports.wasm_gemm[name] = (...values) => Module.asm[own](...values);
  }
  const ready = new Promise((resolve) => (Module.onRuntimeInitialized = resolve));
  accept(await WebAssembly.instantiate(compiled, imports));
  await ready;
  const memory = (bytes, alignment) => {
    const found = new Module.AlignedMemory(bytes.length, alignment);
    found.getByteArrayView().set(bytes);
    return found;
  };
  const list = new Module.AlignedMemoryList();
  for (const bytes of vocabularies) list.push_back(memory(bytes, 64));
  const parts = [memory(model, 256), memory(shortlist, 64), list, null];
  const loaded = new Module.TranslationModel(config, ...parts);
  const service = new Module.BlockingService({ cacheSize: 0 });
  const options = new Module.VectorResponseOptions();
  options.push_back({ alignment: true, html: true, qualityScores: false });
  return (html) => {
    const texts = new Module.VectorString();
    texts.push_back(html);
    const responses = service.translate(loaded, texts, options);
    const response = responses.get(0);
    const found = response.getTranslatedText();
    for (const one of [texts, responses, response]) one.delete();
    return found;
  };
}
