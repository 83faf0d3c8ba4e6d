/** A bounded number of places that holders share: one alone may have them all, and none can keep the others out. */

export interface Shares<Holder> {
  /**
   * Takes `amount` places for `holder`; false where it may not have them. While places are free, anybody may. When none are, only
   * a holder with less than an equal share, and only until twice the places are taken.
   */
  take(holder: Holder, amount?: number): boolean;
  /** Gives back what `take` took. */
  give(holder: Holder, amount?: number): void;
  /** How many are taken. */
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
