import { Maximize2, Minus, Plus } from "lucide-react";
import { useCallback, useEffect, useRef, useState } from "react";
import type { Placed } from "@/model/layout";
import type { Row } from "@/model/rows";
import { Button } from "@/ui/Button";
import { type PartState, stateOf } from "./looks";
import type { Drawn, Line } from "./use-drawn";

const BARS: Record<PartState, string> = {
  done: "done-bar",
  run: "run-bar",
  wait: "wait-bar",
  fail: "fail-bar",
  undo: "undo-bar",
  idle: "line-strong",
  retry: "wait-bar",
};

interface View {
  x: number;
  y: number;
  zoom: number;
}

/** The graph on a canvas: for more parts than a page can hold as elements. */
export default function CanvasView({
  drawn,
  lines,
  places,
  select,
}: {
  drawn: Drawn[];
  lines: Line[];
  places: Map<string, Placed>;
  select: (row: Row) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState<View | null>(null);
  const fit = useCallback(() => {
    const element = canvas.current;
    if (!element) return;
    let [width, height] = [1, 1];
    for (const place of places.values()) {
      width = Math.max(width, place.x + place.width);
      height = Math.max(height, place.y + place.height);
    }
    const zoom = Math.max(0.02, Math.min(1, (element.clientWidth - 32) / width, (element.clientHeight - 32) / height));
    setView({ x: 16, y: Math.max(16, (element.clientHeight - height * zoom) / 2), zoom });
  }, [places]);
  useEffect(fit, [fit]);

  useEffect(() => {
    const element = canvas.current;
    if (!element || !view) return;
    let frame = requestAnimationFrame(() => draw(element, view, drawn, lines, places));
    const again = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => draw(element, view, drawn, lines, places));
    };
    const sizes = new ResizeObserver(again);
    sizes.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", again);
    return () => {
      cancelAnimationFrame(frame);
      sizes.disconnect();
      scheme.removeEventListener("change", again);
    };
  }, [view, drawn, lines, places]);

  const zoomBy = (
    factor: number,
    x = (canvas.current?.clientWidth ?? 0) / 2,
    y = (canvas.current?.clientHeight ?? 0) / 2,
  ) =>
    setView((before) => {
      if (!before) return before;
      const zoom = Math.max(0.02, Math.min(2, before.zoom * factor));
      const part = zoom / before.zoom;
      return { zoom, x: x - (x - before.x) * part, y: y - (y - before.y) * part };
    });
  const drag = useRef<{ x: number; y: number; moved: boolean } | null>(null);
  const onMove = (event: React.PointerEvent) => {
    const from = drag.current;
    if (!from) return;
    const [dx, dy] = [event.clientX - from.x, event.clientY - from.y];
    if (!from.moved && Math.hypot(dx, dy) < 4) return;
    drag.current = { x: event.clientX, y: event.clientY, moved: true };
    setView((before) => before && { ...before, x: before.x + dx, y: before.y + dy });
  };
  const onUp = (event: React.PointerEvent) => {
    const from = drag.current;
    drag.current = null;
    const element = canvas.current;
    if (!from || from.moved || !view || !element) return;
    const bounds = element.getBoundingClientRect();
    const x = (event.clientX - bounds.left - view.x) / view.zoom;
    const y = (event.clientY - bounds.top - view.y) / view.zoom;
    const hit = drawn.findLast((each) => {
      const place = places.get(each.id);
      return place && x >= place.x && x <= place.x + place.width && y >= place.y && y <= place.y + place.height;
    });
    if (hit?.is !== "part") return;
    if (hit.props.row.rows.length) hit.props.toggle(hit.props.row);
    else select(hit.props.row);
  };
  return (
    <>
      <canvas
        ref={canvas}
        aria-label={`Graph of ${drawn.length} parts. The timeline has the same as a list.`}
        role="img"
        className="size-full touch-none"
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, y: event.clientY, moved: false };
          event.currentTarget.setPointerCapture(event.pointerId);
        }}
        onPointerMove={onMove}
        onPointerUp={onUp}
        onPointerCancel={() => {
          drag.current = null;
        }}
      />
      <div className="absolute right-3 bottom-3 z-10 flex gap-1">
        <Button small square look="soft" aria-label="Zoom out" onClick={() => zoomBy(1 / 1.4)}>
          <Minus size={14} aria-hidden />
        </Button>
        <Button small square look="soft" aria-label="Zoom in" onClick={() => zoomBy(1.4)}>
          <Plus size={14} aria-hidden />
        </Button>
        <Button small look="soft" onClick={fit}>
          <Maximize2 size={14} aria-hidden /> Fit
        </Button>
      </div>
    </>
  );
}

function draw(
  element: HTMLCanvasElement,
  view: View,
  drawn: Drawn[],
  lines: Line[],
  places: Map<string, Placed>,
): void {
  const ratio = devicePixelRatio;
  const [width, height] = [element.clientWidth, element.clientHeight];
  if (element.width !== width * ratio || element.height !== height * ratio)
    [element.width, element.height] = [width * ratio, height * ratio];
  const context = element.getContext("2d");
  if (!context) return;
  const style = getComputedStyle(element);
  const colour = (name: string) => resolved(element, style, name);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(ratio * view.zoom, 0, 0, ratio * view.zoom, ratio * view.x, ratio * view.y);
  const isSeen = (place: Placed) => {
    const [x, y] = [place.x * view.zoom + view.x, place.y * view.zoom + view.y];
    return x < width && y < height && x + place.width * view.zoom > 0 && y + place.height * view.zoom > 0;
  };
  context.lineWidth = 1 / Math.max(0.4, view.zoom);
  context.strokeStyle = colour("line-strong");
  context.beginPath();
  for (const line of lines) {
    const [from, to] = [places.get(line.from), places.get(line.to)];
    if (!from || !to || !(isSeen(from) || isSeen(to))) continue;
    const [x0, y0, x1, y1] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2];
    context.moveTo(x0, y0);
    context.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
  }
  context.stroke();
  const [surface, sunken, text, selected] = [colour("surface"), colour("sunken"), colour("text"), colour("ink")];
  const colours = new Map(Object.values(BARS).map((name) => [name, colour(name)]));
  context.font = "14px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const each of drawn) {
    const place = places.get(each.id);
    if (!place || each.is !== "part" || !isSeen(place)) continue;
    const { row, isOpen, isSelected, intervals } = each.props;
    context.fillStyle = isOpen ? sunken : surface;
    context.fillRect(place.x, place.y, place.width, place.height);
    const state = row.rows.length ? null : BARS[stateOf(row, intervals)];
    context.strokeStyle = isSelected ? selected : ((state && colours.get(state)) ?? colour("line-strong"));
    context.strokeRect(place.x, place.y, place.width, place.height);
    if (state) {
      context.fillStyle = colours.get(state) ?? text;
      context.fillRect(place.x, place.y, 5, place.height);
    }
    if (view.zoom < 0.45) continue;
    context.fillStyle = text;
    context.fillText(row.label, place.x + 12, place.y + (isOpen ? 18 : place.height / 2), place.width - 18);
  }
}

/** The colour of a token, for a canvas: it does not know light-dark(). */
function resolved(element: HTMLElement, style: CSSStyleDeclaration, name: string): string {
  const before = element.style.color;
  element.style.color = `var(--${name})`;
  const found = style.color;
  element.style.color = before;
  return found;
}
