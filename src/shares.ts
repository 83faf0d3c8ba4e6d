/** Divides a limited number of places fairly: one holder alone may take all of them, but cannot keep others out. */

/** Whose share something counts against: the id of an account, or a network. */
export type Holder = number | string;

export interface Shares<Holder> {
  /**
   * Takes `amount` places for `holder`. Returns false if the holder may not have them. While enough places are free, any holder may take
   * them. Beyond that, a holder may take up to an equal share, until twice the number of places is taken.
   */
  take(holder: Holder, amount?: number): boolean;
  /** Returns places that `take` took. */
  give(holder: Holder, amount?: number): void;
  /** How many places are taken. */
  taken(): number;
}

export function createShares<Holder>(places: number): Shares<Holder> {
  const held = new Map<Holder, number>();
  let taken = 0;
  return {
    take(holder, amount = 1) {
      const own = held.get(holder) ?? 0;
      if (taken + amount > places) {
        const holders = held.size + (own === 0 ? 1 : 0);
        if (own + amount > places / holders || taken + amount > 2 * places) return false;
      }
      held.set(holder, own + amount);
      taken += amount;
      return true;
    },
    give(holder, amount = 1) {
      const left = (held.get(holder) as number) - amount;
      if (left > 0) held.set(holder, left);
      else held.delete(holder);
      taken -= amount;
    },
    taken: () => taken,
  };
}
