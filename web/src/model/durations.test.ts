import { describe, expect, it } from "vitest";
import { bytes, count, counted, duration, exactMoment, moment, preciseClock } from "./durations";

const S = 1000;
const MIN = 60 * S;
const H = 60 * MIN;
const D = 24 * H;

describe("duration", () => {
  it.each([
    [-5, "0 ms"],
    [0, "0 ms"],
    [Number.NaN, "0 ms"],
    [0.42, "0.4 ms"],
    [345, "345 ms"],
    [999.6, "1 s"],
    [6.4 * S, "6.4 s"],
    [18.94 * S, "18.9 s"],
    [59 * S, "59 s"],
    [59.96 * S, "1 min 00 s"],
    [2 * MIN + 46 * S, "2 min 46 s"],
    [MIN + 4 * S, "1 min 04 s"],
    [9 * H + 4 * MIN + 59 * S, "9 h 04 min"],
    [13 * D + 6 * H + 59 * MIN, "13 d 6 h"],
    [400 * D, "400 d 0 h"],
  ])("%d ms is %s", (ms, text) => expect(duration(ms)).toBe(text));

  it.each([
    [-1, "0 s"],
    [999, "0 s"],
    [9 * S + 900, "9 s"],
    [59_999, "59 s"],
    [9 * MIN + 22_900, "9 min 22 s"],
  ])("counts whole seconds: %d ms is %s", (ms, text) => expect(duration(ms, { whole: true })).toBe(text));
});

describe("moments", () => {
  const now = Date.UTC(2026, 10, 18, 21, 0, 20);
  it("says the time today, the day this year, and the year otherwise", () => {
    expect(moment(Date.UTC(2026, 10, 18, 20, 53, 24), now, "utc")).toBe("20:53:24");
    expect(moment(Date.UTC(2026, 10, 17, 20, 53, 24), now, "utc")).toBe("17 Nov, 20:53");
    expect(moment(Date.UTC(2025, 10, 17, 20, 53, 24), now, "utc")).toBe("17 Nov 2025, 20:53");
  });
  it("says the whole moment", () => {
    const time = Date.UTC(2026, 10, 18, 19, 53, 24, 835);
    expect(exactMoment(time, "utc")).toBe("Wednesday, 18 November 2026, 19:53:24.835 UTC");
    expect(preciseClock(time, "utc")).toBe("19:53:24.835");
  });
});

it("counts", () => {
  expect([count(7), count(1840), count(1_234_567)]).toEqual(["7", "1,840", "1.2 M"]);
  expect([counted(1, "node"), counted(2000, "node"), counted(2, "child", "children")]).toEqual([
    "1 node",
    "2,000 nodes",
    "2 children",
  ]);
});

it("says sizes", () => {
  expect([bytes(812), bytes(1000), bytes(226_400), bytes(1_440_000), bytes(64_000_000)]).toEqual([
    "812 B",
    "1 kB",
    "226 kB",
    "1.4 MB",
    "64 MB",
  ]);
});
