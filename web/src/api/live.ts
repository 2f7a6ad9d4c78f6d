import { create } from "zustand";
import type { State } from "./hub";

interface Live {
  state: State;
  set: (state: State) => void;
}

/** Whether the page is live. */
export const useLive = create<Live>((set) => ({
  state: { is: "connecting", opened: 0 },
  set: (state) => set({ state }),
}));
