// @vitest-environment happy-dom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { useState } from "react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { DataTable } from "./DataTable";
import { useSettings } from "./settings";

const ROWS = ["a", "b", "c", "d"];
const opened = vi.fn();

function Table({ rows = ROWS }: { rows?: string[] }) {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  return (
    <>
      <DataTable
        label="Letters"
        columns={[{ key: "letter", name: "Letter", width: "1fr", cell: (row) => row.toUpperCase() }]}
        rows={rows}
        rowKey={(row) => row}
        narrow={(row) => row}
        onOpen={opened}
        selection={{ selected, onChange: setSelected }}
      />
      <output>{[...selected].join(" ")}</output>
      <input aria-label="Elsewhere" />
    </>
  );
}

const press = (key: string, on: Element = document.body) =>
  fireEvent.keyDown(on, { key, shiftKey: /^[A-Z]$/.test(key) });
const selected = () => screen.getByRole("status").textContent;

beforeEach(() => {
  vi.stubGlobal("innerHeight", 800);
  useSettings.setState({ keys: true });
  opened.mockClear();
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

it("selects, extends and clears by keys", () => {
  render(<Table />);
  press("j");
  press("j");
  press("x");
  expect(selected()).toBe("b");
  press("J");
  press("J");
  expect(selected()).toBe("b c d");
  press("x");
  expect(selected()).toBe("b c");
  press("Escape");
  expect(selected()).toBe("");
});

it("opens the row that the keys stand on", () => {
  render(<Table />);
  press("ArrowDown");
  press("ArrowDown");
  press("k");
  press("Enter");
  expect(opened).toHaveBeenCalledExactlyOnceWith("a");
});

it("stays on its row when others come before it", () => {
  const { rerender } = render(<Table />);
  press("j");
  press("j");
  rerender(<Table rows={["new", ...ROWS]} />);
  press("x");
  expect(selected()).toBe("b");
});

it("leaves keys alone while someone types, or if they are switched off", () => {
  render(<Table />);
  press("j", screen.getByLabelText("Elsewhere"));
  press("x", screen.getByLabelText("Elsewhere"));
  useSettings.setState({ keys: false });
  press("j");
  press("x");
  expect(selected()).toBe("");
});

it("selects all that are shown", () => {
  render(<Table />);
  fireEvent.click(screen.getByLabelText("Select all 4 shown"));
  expect(selected()).toBe("a b c d");
});
