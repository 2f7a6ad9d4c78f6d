import { type RefObject, useEffect, useLayoutEffect, useState } from "react";

const AHEAD = 6;
const STEP = 4;

/** The rows of a scrolling box that can be seen, looked at once in a frame: from the first to behind the last. */
export function useVisible(
  box: RefObject<HTMLElement | null>,
  count: number,
  height: number,
  head: number,
): [number, number] {
  const [range, setRange] = useState<[number, number]>([0, 40]);
  const look = () => {
    const element = box.current;
    if (!element) return;
    const first = Math.max(0, Math.floor((element.scrollTop / height - AHEAD) / STEP) * STEP);
    const last = Math.ceil(((element.scrollTop + element.clientHeight - head) / height + AHEAD) / STEP) * STEP;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: another number of rows shows others
  useLayoutEffect(look, [count, height, head]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `look` reads only the box
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let frame = 0;
    const soon = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        look();
      });
    };
    const sizes = new ResizeObserver(soon);
    sizes.observe(element);
    element.addEventListener("scroll", soon, { passive: true });
    return () => {
      cancelAnimationFrame(frame);
      sizes.disconnect();
      element.removeEventListener("scroll", soon);
    };
  }, [height, head]);
  return [Math.min(range[0], Math.max(0, count - 1)), Math.min(count, range[1])];
}

/** The width of an element in pixels. */
export function useWidth(box: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    setWidth(element.clientWidth);
    const sizes = new ResizeObserver(() => setWidth(element.clientWidth));
    sizes.observe(element);
    return () => sizes.disconnect();
  }, [box]);
  return width;
}
