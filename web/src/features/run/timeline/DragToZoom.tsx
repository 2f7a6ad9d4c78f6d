import { useState } from "react";
import type { Axis } from "@/model/axis";

const LEAST_PX = 6;

/** A window of time chosen by dragging over the axis. Keys and buttons do the same. */
export function DragToZoom({
  axis,
  left,
  show,
}: {
  axis: Axis;
  left: number;
  show: (window: { from: number; to: number }) => void;
}) {
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const xOf = (event: React.PointerEvent) => {
    const { left } = event.currentTarget.getBoundingClientRect();
    return Math.max(0, Math.min(axis.width, event.clientX - left));
  };
  const [x0, x1] = drag ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)] : [0, 0];
  return (
    <div
      aria-hidden
      className="absolute inset-y-0 cursor-crosshair touch-pan-y"
      style={{ left, width: axis.width }}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag({ from: xOf(event), to: xOf(event) });
      }}
      onPointerMove={(event) => {
        if (drag) setDrag({ ...drag, to: xOf(event) });
      }}
      onPointerUp={() => {
        if (x1 - x0 >= LEAST_PX) show({ from: Math.round(axis.time(x0)), to: Math.round(axis.time(x1)) });
        setDrag(null);
      }}
      onPointerCancel={() => setDrag(null)}
    >
      {x1 - x0 >= LEAST_PX ? (
        <span className="absolute inset-y-0 bg-run-tint" style={{ left: x0, width: x1 - x0 }} />
      ) : null}
    </div>
  );
}
