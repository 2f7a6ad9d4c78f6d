import { api } from "./client";
import { useSession } from "./session";

/** End the session of this browser. */
export async function signOut(): Promise<void> {
  await api.DELETE("/api/v1/session");
  useSession.setState({ isSignedOut: true });
}
