/** Divides a limited number of places fairly: one holder alone may take all of them, but cannot keep others out. */

/** Whose share something counts against: the id of an account, or a network. */
export type Holder = number | string;

export interface Shares<Holder> {
  /**
   * Takes `amount` places for `holder`. Returns false if the holder may not have them. While enough places are free, any holder may take
   * them. Beyond that, a holder may take up to an equal share; beyond 1.5 times the places, up to a part of those that are left until
   * twice the places are taken, so that many holders together cannot take them all soon. Whoever has none may take one, up to three times.
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

  /** A part of what is left, as for the queues of a shared buffer: Choudhury and Hahne, "Dynamic queue length thresholds", 1998. */
  function shareOf(holders: number, all: number): number {
    const equal = places / holders;
    return all <= 1.5 * places ? equal : Math.min(equal, (2 * places - all) / 16);
  }

  return {
    take(holder, amount = 1) {
      const own = held.get(holder) ?? 0;
      const all = taken + amount;
      if (all > places) {
        const isFirst = own === 0 && all <= 3 * places;
        if (!isFirst && own + amount > shareOf(held.size + (own === 0 ? 1 : 0), all)) return false;
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

/** The place of a request: whose share it counts against, and whether it is a stranger, without a valid API key. */
export interface Claimant {
  holder: Holder;
  stranger: boolean;
}

/** Places in two parts, each divided fairly: those with a valid API key have `places`, and all strangers together a quarter of that number. */
export interface Parts {
  /** Takes `amount` places; returns false if the claimant may not have them. */
  take(claimant: Claimant, amount?: number): boolean;
  /** Returns places that `take` took for the same claimant. */
  give(claimant: Claimant, amount?: number): void;
  taken(): number;
}

export function createParts(places: number): Parts {
  const keys = createShares<Holder>(places);
  const strangers = createShares<Holder>(Math.ceil(places / 4));
  const partOf = ({ stranger }: Claimant) => (stranger ? strangers : keys);
  return {
    take: (claimant, amount) => partOf(claimant).take(claimant.holder, amount),
    give: (claimant, amount) => partOf(claimant).give(claimant.holder, amount),
    taken: () => keys.taken() + strangers.taken(),
  };
}
