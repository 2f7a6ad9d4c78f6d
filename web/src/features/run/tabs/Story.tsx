import { Doctor } from "../story/Doctor";
import { FirstError } from "../story/FirstError";
import { Holders } from "../story/Holders";
import { Spine } from "../story/Spine";

/** Why the run is where it is: the first error, then what happened in sentences; beside it the doctor, and who held it. */
export default function Story() {
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,7fr)_minmax(0,3fr)]">
      <div className="flex min-w-0 flex-col gap-4">
        <FirstError />
        <Spine />
      </div>
      <div className="flex min-w-0 flex-col gap-4">
        <Doctor />
        <Holders />
      </div>
    </div>
  );
}
