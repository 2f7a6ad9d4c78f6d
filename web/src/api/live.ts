import { create } from "zustand";

interface Live {
  /** `live`: the stream is open. `lost`: it is not, since the moment `since`; the next attempt is at `next`. */
  state: "connecting" | "live" | "lost";
}

export const useLive = create<Live>(() => ({ state: "connecting" }));
