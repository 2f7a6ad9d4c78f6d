import { expect, it } from "vitest";
import { Exact } from "../api/json";
import { previewOf, typeOf } from "./preview";

const PNG = btoa(String.fromCharCode(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, ...Array(10).fill(0)));

it("knows images and sounds by their first bytes, marked or not", () => {
  expect(previewOf(PNG)).toMatchObject({ kind: "image", type: "image/png" });
  expect(previewOf({ $: "bytes", v: PNG })).toMatchObject({ kind: "image", type: "image/png" });
  expect(previewOf(btoa(`RIFF0000WAVE${"0".repeat(12)}`))).toMatchObject({ kind: "audio", type: "audio/wav" });
});

it("never takes SVG and HTML for an image: they are texts", () => {
  const svg = "<svg onload=alert(1)>\n</svg>";
  expect(previewOf(svg)).toEqual({ kind: "text", text: svg, hint: "svg" });
  expect(previewOf({ $: "bytes", v: btoa(svg) })).toEqual({ kind: "text", text: svg, hint: "svg" });
  expect(previewOf("<script>alert(1)</script>")).toBeNull();
});

it("shows records and separated values as tables", () => {
  expect(previewOf([{ id: 1, name: "a" }, { id: new Exact("12345678901234567890") }])).toMatchObject({
    kind: "table",
    columns: ["id", "name"],
    all: 2,
  });
  expect(previewOf("id,name\n1,a\n2,b\n")).toMatchObject({ kind: "table", columns: ["id", "name"], all: 2 });
  expect(previewOf([{ id: 1 }, { id: { nested: 1 } }])).toBeNull();
  expect(previewOf([1, 2])).toBeNull();
});

it("leaves a short text that looks like base64 as it is", () => {
  expect(previewOf("YWJjZGVmZ2hpamtsbW5v")).toBeNull();
});

it("says what a value is", () => {
  expect([new Exact("12345678901234567890"), new Exact("0.10"), 3, 0.5, "a", null, [1], {}].map(typeOf)).toEqual([
    ...["integer", "number", "integer", "number", "text, 1 character", "null", "list of 1", "object with 0 fields"],
  ]);
});
