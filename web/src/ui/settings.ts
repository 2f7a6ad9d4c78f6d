import { create } from "zustand";
import { persist } from "zustand/middleware";
import type { Zone } from "@/model/durations";

export type Theme = "system" | "light" | "dark";
export type Density = "comfortable" | "dense";

interface Settings {
  theme: Theme;
  zone: Zone;
  density: Density;
  /** Whether single keys do something, such as `j` and `x`. */
  keys: boolean;
  set: (changed: Partial<Omit<Settings, "set">>) => void;
}

const NAME = "outlast.settings";

/** What this person has set, in this browser. */
export const useSettings = create<Settings>()(
  persist((set) => ({ theme: "system", zone: "local", density: "comfortable", keys: true, set }), {
    name: NAME,
    partialize: ({ set: _, ...kept }) => kept,
  }),
);

/** Show the settings on the page, and take over what another tab sets. */
export function applySettings(): void {
  const apply = ({ theme, density }: Settings) => {
    const { dataset } = document.documentElement;
    if (theme === "system") delete dataset.theme;
    else dataset.theme = theme;
    dataset.density = density;
  };
  apply(useSettings.getState());
  useSettings.subscribe(apply);
  addEventListener("storage", (event) => {
    if (event.key === NAME) void useSettings.persist.rehydrate();
  });
}
