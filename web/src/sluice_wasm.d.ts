declare module '@sluice/wasm?url' {
  const url: string;
  export default url;
}
declare module '@sluice/wasm-threads?url' {
  const url: string;
  export default url;
}
