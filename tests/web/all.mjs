// All tests of the page, in one browser: node --test tests/web/all.mjs, after the build in web/.
import './page_test.mjs';
import './conversations_test.mjs';
import './text_test.mjs';
import './models_test.mjs';
import './adapters_test.mjs';
import './server_test.mjs';
