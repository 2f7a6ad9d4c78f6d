import { useSyncExternalStore } from "react";
import { useSettings } from "./settings";

/** Whether the page is at least so many pixels wide. */
export function useIsWide(px: number): boolean {
  const query = `(width >= ${px}px)`;
  return useSyncExternalStore(
    (listener) => {
      const media = matchMedia(query);
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    () => matchMedia(query).matches,
  );
}

/** The height of a row in pixels: narrow screens have higher ones, dense tables lower ones. */
export function useRowHeight(): number {
  const density = useSettings((settings) => settings.density);
  return useIsWide(700) ? (density === "dense" ? 28 : 36) : 48;
}
