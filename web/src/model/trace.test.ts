import { expect, it } from "vitest";
import { errorName, framesOf, messageOf, shortErrorName } from "./trace";

const TRACE = `Traceback (most recent call last):
  File "/srv/app/shop.py", line 67, in send_mail
    deliver(to, attachment)
    ~~~~~~~^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/socket.py", line 12, in create
    raise OSError
  File "/srv/app/shop.py", line 31, in connect
    raise MailServerDown(f"{host}:{port} refused the connection")
shop.MailServerDown: relay.internal:587 refused the connection
`;

it("finds the frames of the user's code", () => {
  expect(framesOf(TRACE).map(({ file, line, name, code }) => [file, line, name, code])).toEqual([
    ["shop.py", 67, "send_mail", "deliver(to, attachment)"],
    ["shop.py", 31, "connect", 'raise MailServerDown(f"{host}:{port} refused the connection")'],
  ]);
});

it("shows the frames of libraries if there are no others", () => {
  expect(framesOf('  File "/usr/lib/python3.11/socket.py", line 12, in create\n')).toMatchObject([
    { file: "socket.py", code: "" },
  ]);
  expect(framesOf("")).toEqual([]);
});

it("names errors", () => {
  expect([errorName("shop:MailServerDown"), errorName("ValueError"), errorName("outlast.run_diverged")]).toEqual([
    "shop.MailServerDown",
    "ValueError",
    "RunDiverged",
  ]);
  expect(shortErrorName("shop:MailServerDown")).toBe("MailServerDown");
  expect(messageOf({ kind: "ValueError", message: "line 17: not a number\nin column price" })).toBe(
    "line 17: not a number",
  );
  expect(messageOf({ kind: "shop:Down" })).toBe("shop.Down");
});
