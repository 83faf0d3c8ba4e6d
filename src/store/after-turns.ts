/** Runs `act` at the end of a turn of the event loop: of this one if `turns` is 1. Between two turns, all connections are read. */
export function afterTurns(turns: number, act: () => void): void {
  setImmediate(turns > 1 ? () => afterTurns(turns - 1, act) : act);
}
