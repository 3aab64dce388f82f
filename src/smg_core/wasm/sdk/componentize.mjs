// node componentize.mjs CORE.wasm PLUGIN.wit OUT.wasm HOOK... : makes a component of a core module, with the tools of jco.
// A HOOK is the name of an interface that the plugin exports; +NAME one that it imports; WORLD=FILE another world as it is.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { createRequire } from "node:module";
const [core, wit, out, ...hooks] = process.argv.slice(2);
const from = createRequire(process.env.SMG_JCO ? `${process.env.SMG_JCO}/package.json` : `${process.cwd()}/package.json`);
const tools = await import(pathToFileURL(from.resolve("@bytecodealliance/jco-transpile/wasm-tools")));
let text = readFileSync(wit, "utf8"), worldName = "";
if (hooks.length) {
  const [, name, version] = /package ([^@;]+)@([^;]+);/.exec(text);
  const line = (each) => (each[0] === "+" ? `  import ${name}/${each.slice(1)}@${version};` : `  export ${name}/${each}@${version};`);
  text = `${text.replace(/package [^;]+;/, `package ${name}@${version} {`)}\n}\n`;
  text = `package built:here;\nworld built {\n${hooks.map(line).join("\n")}\n}\n${text}`;
  worldName = "built";
}
const binary = readFileSync(core);
const embedded = await tools.componentEmbed({ binary, witSource: text, ...(worldName && { worldName }) });
writeFileSync(out, await tools.componentNew(embedded, []));
