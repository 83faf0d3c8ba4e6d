/** Versions of releases: three numbers, as Semantic Versioning orders them. There are no pre-releases. */

export const isVersion = (text: string) => /^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}$/.test(text);

/** Negative if `one` is less than `other`, positive if it is greater. */
export const compareVersions = new Intl.Collator('en', { numeric: true }).compare;

/** Undefined if no name is a version. */
export const newestOf = (names: string[]) => names.filter(isVersion).sort(compareVersions).at(-1);
