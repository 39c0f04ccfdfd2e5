declare module '@sluice/wasm?url' {
  const url: string;
  export default url;
}
