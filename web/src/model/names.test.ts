import { expect, it } from "vitest";
import { cutName, partsOf, plainName, shortId } from "./names";

it("shortens UUIDs to their last characters and leaves other ids whole", () => {
  expect(shortId("0199d2f4-3c11-7c5e-9b1e-5d0a4295ccc8")).toBe("…95ccc8");
  expect(shortId("0199d2f43c117c5e9b1e5d0a4295ccc8")).toBe("…95ccc8");
  expect(shortId("invoice-2231")).toBe("invoice-2231");
  expect(shortId("a-very-long-name-of-a-run-that-goes-on")).toBe("a-very-long-…hat-goes-on");
});

it("leaves out the mark of a branch", () => {
  expect(plainName("publish_region[eu]~b1")).toBe("publish_region[eu]");
});

it("divides a name into groups, base and key", () => {
  expect(partsOf("collect/fetch_feed[northwind]")).toEqual({
    groups: ["collect"],
    own: "fetch_feed[northwind]",
    base: "fetch_feed",
    key: "northwind",
  });
  expect(partsOf("fetch[a/b]")).toMatchObject({ groups: [], base: "fetch", key: "a/b" });
  expect(partsOf("send#2")).toMatchObject({ groups: [], base: "send", key: "2" });
  expect(partsOf("read/read/17")).toEqual({ groups: ["read", "read"], own: "17", base: "read", key: "17" });
  expect(partsOf("17")).toMatchObject({ groups: [], own: "17", base: "17", key: "" });
});

it("cuts the middle of a name, never its key", () => {
  expect(cutName("deliver/to_customers/by_mail/send_mail[c-118]", 30)).toBe("deliver/…/send_mail[c-118]");
  expect(cutName("send_mail[c-118]", 10)).toBe("send_mail[c-118]");
  expect(cutName("deliver/send_mail", 30)).toBe("deliver/send_mail");
});
