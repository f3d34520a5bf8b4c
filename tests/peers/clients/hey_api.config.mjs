// How @hey-api/openapi-ts generates its client: as modules that Node loads without a bundler.
export default {
  input: "document.json",
  output: { path: "generated", importFileExtension: ".js" },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk"],
  logs: { file: false },
};
