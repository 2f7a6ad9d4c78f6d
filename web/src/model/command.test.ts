import { expect, test } from "vitest";
import { parse } from "../api/json";
import { quoted, startCommand } from "./command";

test("a word is quoted only if a shell needs it", () => {
  expect(quoted("c-204")).toBe("c-204");
  expect(quoted("it's")).toBe(`'it'\\''s'`);
  expect(quoted("$(rm)")).toBe("'$(rm)'");
  expect(quoted("")).toBe("''");
});

test("the command has parameters as the command line reads them, with every digit", () => {
  const params = parse(
    '{"customer": "c-204", "articles": ["desk-2"], "big": 9007199254740993, "price": "1.50", "note": "two words", "none": null}',
    true,
  );
  expect(
    startCommand({
      entry: "shop:invoice",
      params: params as never,
      id: "invoice-1",
      title: "Grace, December",
      tags: ["eu", "monthly"],
      attributes: ["customer=acme", 'code="12"'],
      queue: "gpu",
      priority: "-5",
      fairnessKey: "c 204",
      isLater: true,
    }),
  ).toBe(
    [
      "outlast run shop:invoice",
      `customer=c-204 'articles=["desk-2"]' big=9007199254740993 'price="1.50"' 'note=two words' none=null`,
      "--id invoice-1 --title 'Grace, December' --tag eu --tag monthly --attribute customer=acme --attribute 'code=\"12\"' --queue gpu --priority -5 --fairness-key 'c 204' --no-start",
    ].join(" \\\n  "),
  );
});

test("nothing given is nothing said", () => {
  expect(
    startCommand({
      ...{ entry: "shop:tick", params: {}, id: "", title: "", tags: [], attributes: [] },
      ...{ queue: "", priority: "", fairnessKey: "", isLater: false },
    }),
  ).toBe("outlast run shop:tick");
});
