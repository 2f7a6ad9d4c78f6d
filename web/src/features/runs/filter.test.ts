import { describe, expect, it } from "vitest";
import { asked, type Filter, filterOf, NOTHING, queryOf } from "./filter";

const filter = (changed: Partial<Filter>): Filter => ({ ...NOTHING, ...changed });

describe("the filter of runs", () => {
  it.each<Partial<Filter>>([
    {},
    { text: "a&b=c #1", tag: ["eu", "größer"], workflow: "refund" },
    { status: ["held", "waiting"], children: true, asks: true },
    { attribute: ["customer=acme & sons", "total>=10"], queue: "slow", sort: "-total" },
    { started: "7d", until: "2026-11-18T20:53:24.835Z" },
  ])("is the same after the address: %o", (changed) => {
    expect(filterOf(new URLSearchParams(queryOf(filter(changed)).toString()))).toEqual(filter(changed));
  });

  it("ignores what the address may not hold", () => {
    expect(filterOf(new URLSearchParams("status=odd&started=99y&until=soon&children=yes&attribute=x&sort=A"))).toEqual(
      NOTHING,
    );
  });

  it("asks for held runs by their flag", () => {
    expect(asked(filter({ status: ["held"] }))).toEqual({ status: ["failed"], held: true, children: false });
    expect(asked(filter({ status: ["failed"] }))).toEqual({ status: ["failed"], held: false, children: false });
    expect(asked(filter({ status: ["failed", "held"] }))).toEqual({ status: ["failed"], children: false });
    expect(asked(filter({ status: ["failed", "paused"] }))).toEqual({
      status: ["failed", "paused"],
      held: false,
      children: false,
    });
    expect(asked(filter({ status: ["held", "paused"] }))).toEqual({ status: ["failed", "paused"], children: false });
  });
});
