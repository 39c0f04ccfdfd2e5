// Light and dark: the system's, until the user chooses.
import { byId } from './dom.ts';
import { recall, remember } from './memory.ts';

const systemDark = matchMedia('(prefers-color-scheme: dark)');

function showTheme(): void {
  const theme = recall('theme');
  const dark = theme === null ? systemDark.matches : theme === 'dark';
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  byId('theme').setAttribute('aria-pressed', `${dark}`);
}

export function followTheme(): void {
  byId('theme').onclick = () => {
    remember('theme', document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
    showTheme();
  };
  systemDark.addEventListener('change', showTheme);
  showTheme();
}
